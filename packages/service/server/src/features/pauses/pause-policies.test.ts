/** The pause policies of sandboxes: what creations accept, and what wakes a paused sandbox. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { operations, type SandboxId } from '@cloche/contract';
import { freezingOf, isFrozen, openPauses, pause, pauseEvents, resume } from '../../../testing/pauses.ts';
import { ORG } from '../../../testing/seeded-organizations.ts';

const DAY_MS = 86_400_000;
const HOUR_MS = 3_600_000;
const at = (ms: number) => new Date(ms).toISOString();
type World = Awaited<ReturnType<typeof openPauses>>;

describe('a pause policy', () => {
  const SHOWN: readonly { given: object; shown: object }[] = [
    { given: {}, shown: {} },
    { given: { pause: {} }, shown: {} },
    { given: { ttlMs: 60_000 }, shown: { wakeTtlMs: 60_000 } },
    { given: { ttlMs: 60_000, pause: { wakeTtlMs: DAY_MS } }, shown: { wakeTtlMs: DAY_MS } },
    { given: { pause: { afterIdleMs: 1_000 } }, shown: { afterIdleMs: 1_000 } },
    { given: { pause: { afterIdleMs: DAY_MS, onExpiry: true } }, shown: { afterIdleMs: DAY_MS, onExpiry: true } },
    { given: { pause: { wake: 'explicit' } }, shown: { wake: 'explicit' } },
    { given: { pause: { wake: 'traffic', retainMs: 60_000 } }, shown: { wake: 'traffic', retainMs: 60_000 } },
    { given: { idleTimeoutMs: 5_000, pause: { onExpiry: true } }, shown: { onExpiry: true } },
  ];
  for (const { given, shown } of SHOWN) {
    it(`a pause policy is shown with its defaults: ${JSON.stringify(given)}`, async () => {
      await using world = await openPauses();
      const id = await world.createReady(given);
      const standard = {
        onExpiry: false,
        memory: 'prefer',
        wake: 'requests',
        wakeTtlMs: HOUR_MS,
        retainMs: 30 * DAY_MS,
      };
      assert.deepEqual((await world.get(id)).pause, { ...standard, ...shown });
      assert.deepEqual((await pause(world, id)).pause, { ...standard, ...shown });
    });
  }

  it('a pause policy that contradicts itself or the operator is refused with its field', async () => {
    await using world = await openPauses({ pauseRetentionMs: 100_000 });
    for (const [body, path, message] of [
      [{ idleTimeoutMs: 5_000, pause: { afterIdleMs: 5_000 } }, 'body.pause.afterIdleMs', /idleTimeoutMs.*leave one/],
      [{ pause: { retainMs: 100_001 } }, 'body.pause.retainMs', /at most 100000/],
    ] as const) {
      await assert.rejects(world.create(body), (error: { code: string; details: { issues: { path: string }[] } }) => {
        assert.deepEqual([error.code, error.details.issues.map((issue) => issue.path)], ['invalid_request', [path]]);
        assert.match(String(error), message);
        return true;
      });
    }
    assert.equal((await world.create({ pause: { retainMs: 100_000 } })).pause.retainMs, 100_000);
    assert.equal((await world.create({})).pause.retainMs, 100_000);
  });

  it('a pause policy of the operator holds for creations of clients that give none', async () => {
    await using world = await openPauses({ pauseAfterIdleMs: 7_000 });
    const shown = async (body: object) => (await world.create(body)).pause.afterIdleMs;
    assert.equal(await shown({}), 7_000);
    assert.equal(await shown({ ttlMs: 60_000 }), 7_000);
    assert.equal(await shown({ pause: {} }), undefined);
    assert.equal(await shown({ pause: { afterIdleMs: 1_000 } }), 1_000);
    assert.equal(await shown({ idleTimeoutMs: 5_000 }), undefined);
    const { freezing } = world.driver;
    world.driver.freezing = undefined;
    assert.equal(await shown({}), undefined, 'a host that cannot pause');
    world.driver.freezing = freezing;
  });

  it('a pause policy that cannot be obeyed here is refused at the creation', async (test) => {
    await using world = await openPauses();
    const unsupported = { code: 'conflict', details: { reason: 'memory_unsupported' } };
    const policies = [{ onExpiry: true }, { afterIdleMs: 1_000 }, { afterIdleMs: 1_000, onExpiry: true }];
    const refuseAll = async () => {
      for (const policy of policies) await assert.rejects(world.create({ pause: policy }), unsupported);
      assert.equal((await world.create({ pause: { wake: 'explicit' } })).pause.wake, 'explicit');
    };
    await test.test('a pause policy where the runtime cannot freeze', async () => {
      const { freezing } = world.driver;
      world.driver.freezing = undefined;
      await refuseAll();
      world.driver.freezing = freezing;
    });
    for (const schema_version of [null, '040-first-release', '041-pauses-expand']) {
      await test.test(`a pause policy beside a server of the schema ${schema_version}`, async () => {
        const lease = { id: 'srv_older', lease_until: Number.MAX_SAFE_INTEGER, schema_version };
        await world.db.insertInto('server_leases').values(lease).execute();
        await refuseAll();
        await world.db.deleteFrom('server_leases').where('id', '=', 'srv_older').execute();
      });
    }
    for (const policy of policies) assert.ok((await world.create({ pause: policy })).pause, 'the control');
  });

  it('a pause policy says how long a pause lasts and what a wake begins, where the request does not', async () => {
    await using world = await openPauses();
    const id = await world.createReady({ pause: { retainMs: 60_000, wakeTtlMs: 5_000 } });
    assert.equal((await pause(world, id)).expiresAt, at(world.clock.now() + 60_000));
    assert.equal((await resume(world, id)).expiresAt, at(world.clock.now() + 5_000));
    assert.equal((await pause(world, id, { retainMs: 90_000 })).expiresAt, at(world.clock.now() + 90_000));
    await world.run(id, 'print x');
    assert.equal((await world.get(id)).ttlMs, 5_000);
    await pause(world, id);
    assert.equal((await resume(world, id, { ttlMs: 9_000 })).ttlMs, 9_000);
  });

  it('a pause policy with onExpiry counts as a paused sandbox from its creation, exactly', async () => {
    await using world = await openPauses();
    await world.limits.setOrganization(ORG, { pausedSandboxes: 3 });
    const onExpiry = { ttlMs: 60_000, pause: { onExpiry: true } };
    const made = await Promise.allSettled(Array.from({ length: 5 }, () => world.createReady(onExpiry)));
    const refused = made.filter((one) => one.status === 'rejected');
    assert.equal(refused.length, 2);
    for (const { reason } of refused) assert.equal(reason.details.quota, 'pausedSandboxes');
    const [id] = made.flatMap((one) => (one.status === 'fulfilled' ? [one.value] : []));
    assert.ok(id);
    // Its place is its own, and no one else has one.
    assert.ok((await pause(world, id)).paused);
    const other = await world.createReady();
    await assert.rejects(pause(world, other), { code: 'quota_exceeded' });
    await resume(world, id);
    await world.kill(id);
    assert.ok((await pause(world, other)).paused);
  });
});

describe('what wakes a paused sandbox', () => {
  const REQUESTS: Record<string, (world: World, id: SandboxId) => Promise<unknown>> = {
    'a run': (world, id) => world.run(id, 'print x'),
    'a command': (world, id) => world.runCommand(id, { command: ['bash', 'print x'] }),
    'a list of files': (world, id) => world.call(operations.listFiles, { params: { sandboxId: id }, query: {} }),
    'a new context': (world, id) =>
      world.call(operations.createContext, { params: { sandboxId: id }, body: { language: 'python' } }),
    'a new directory': (world, id) =>
      world.call(operations.makeDirectory, { params: { sandboxId: id }, body: { path: 'made' } }),
  };
  for (const [title, send] of Object.entries(REQUESTS)) {
    it(`what wakes a paused sandbox with explicit is no request but resume: ${title}`, async () => {
      await using world = await openPauses();
      const id = await world.createReady({ pause: { wake: 'explicit' } });
      await pause(world, id);
      await assert.rejects(send(world, id), {
        code: 'sandbox_paused',
        status: 409,
        details: { wake: 'explicit', memory: 'kept' },
      });
      assert.ok(isFrozen(world, id));
      await resume(world, id);
      await send(world, id);
      assert.deepEqual(await pauseEvents(world), ['sandbox.paused', 'sandbox.resumed']);
    });
  }

  it('what wakes a paused sandbox with explicit lets a request pass that waits for a resume under way', async () => {
    await using world = await openPauses();
    const id = await world.createReady({ pause: { wake: 'explicit' } });
    await pause(world, id);
    const freezing = freezingOf(world);
    const thaw = freezing.thaw.bind(freezing);
    const [begun, thawed] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    freezing.thaw = async (...parts) => {
      begun.resolve();
      await thawed.promise;
      return thaw(...parts);
    };
    const resumed = resume(world, id);
    await begun.promise;
    const run = world.run(id, 'print x');
    thawed.resolve();
    assert.equal((await run).stdout, 'x\n');
    assert.equal((await resumed).paused, undefined);
  });

  it('what wakes a paused sandbox with explicit waits for a pause that is given up', async () => {
    await using world = await openPauses();
    const id = await world.createReady({ pause: { wake: 'explicit' } });
    const freezing = freezingOf(world);
    const [begun, failed] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    freezing.freeze = async () => {
      begun.resolve();
      await failed.promise;
      throw new Error('the group does not freeze');
    };
    const refused = assert.rejects(pause(world, id));
    await begun.promise;
    const run = world.run(id, 'print x');
    failed.resolve();
    await refused;
    assert.equal((await run).stdout, 'x\n');
  });

  it('what wakes a paused sandbox is audited as of the system, the first of a minute', async () => {
    await using world = await openPauses();
    const id = await world.createReady();
    for (let round = 0; round < 5; round += 1) {
      await pause(world, id);
      await world.run(id, 'print x');
      world.clock.advance(20_000);
    }
    const rows = await world.db.selectFrom('audit_events').select(['action', 'actor_type', 'target_id']).execute();
    // The clock begins with a minute, and the wakes are at 0, 20, 40, 60 and 80 s.
    const event = { action: 'sandbox.resumed', actor_type: 'system', target_id: id };
    assert.deepEqual(
      rows.map((row) => ({ ...row })),
      [event, event],
    );
    assert.equal((await pauseEvents(world)).length, 10);
  });

  it('what wakes a paused sandbox is limited for each minute, exactly, whoever asks for it', async () => {
    await using world = await openPauses();
    const ids = await Promise.all(Array.from({ length: 5 }, () => world.createReady()));
    for (const id of ids) await pause(world, id);
    await world.limits.setOrganization(ORG, { wakesPerMinute: 2 });
    const woken = await Promise.allSettled(ids.map((id, n) => (n % 2 ? resume(world, id) : world.run(id, 'print x'))));
    const refused = woken.filter((one) => one.status === 'rejected');
    assert.equal(refused.length, 3);
    for (const { reason } of refused) {
      assert.deepEqual([reason.code, reason.status, reason.retryAfterSeconds], ['rate_limited', 429, 60]);
    }
    const quotas = (await world.quotas.list(ORG)).filter(({ quota }) => quota === 'wakesPerMinute');
    assert.deepEqual(quotas, [{ quota: 'wakesPerMinute', limit: 2, used: 2 }]);
    const { data: left } = await world.call(operations.listSandboxes, { query: { paused: true } });
    assert.equal(left.length, 3);
    const [first] = left;
    assert.ok(first);
    world.clock.advance(45_000);
    await assert.rejects(resume(world, first.id), { code: 'rate_limited', retryAfterSeconds: 15 });
    assert.ok(isFrozen(world, first.id));
    world.clock.advance(15_000);
    assert.equal((await resume(world, first.id)).paused, undefined);
  });
});
