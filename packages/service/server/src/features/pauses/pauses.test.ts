/** Pauses of sandboxes on a real database and a fake runtime. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { operations } from '@cloche/contract';
import { AgentError, LaunchError } from '@cloche/runtime';
import { freezingOf, isFrozen, openPauses, pause, pauseEvents, resume } from '../../../testing/pauses.ts';
import { ORG } from '../../../testing/seeded-organizations.ts';

const DAY_MS = 86_400_000;
const at = (ms: number) => new Date(ms).toISOString();

describe('a paused sandbox', () => {
  it('a paused sandbox stands still, is idle, and goes on with its variables when it is resumed', async () => {
    await using world = await openPauses();
    const id = await world.createReady({ metadata: { team: 'x' } });
    await world.run(id, 'set a 41');
    const before = await world.get(id);
    world.clock.advance(1_000);
    const paused = await pause(world, id);
    const now = world.clock.now();
    assert.deepEqual(paused, {
      ...before,
      status: 'idle',
      expiresAt: at(now + 30 * DAY_MS),
      paused: { at: at(now), by: 'request', memory: 'kept', place: 'memory' },
    });
    assert.deepEqual(await world.get(id), paused);
    assert.ok(isFrozen(world, id));

    world.clock.advance(1_000);
    const resumed = await resume(world, id);
    assert.deepEqual(resumed, {
      ...before,
      expiresAt: at(now + 1_000 + before.ttlMs),
      resumed: { at: at(now + 1_000), by: 'request', memory: 'kept' },
      sessionStartedAt: at(now + 1_000),
    });
    assert.ok(!isFrozen(world, id));
    const run = await world.run(id, 'get a');
    assert.deepEqual([run.stdout, run.stateLost], ['41\n', undefined]);
    assert.deepEqual(await pauseEvents(world), ['sandbox.paused', 'sandbox.resumed']);
  });

  it('a paused sandbox is idle, also if it was never used or a background command is in it', async () => {
    await using world = await openPauses();
    const unused = await world.createReady();
    const busy = await world.createReady();
    await world.runCommand(busy, { command: ['bash', 'hang'], background: true });
    assert.equal((await world.get(busy)).status, 'running');
    assert.deepEqual([(await pause(world, unused)).status, (await pause(world, busy)).status], ['idle', 'idle']);
    assert.equal((await resume(world, unused)).status, 'ready');
    assert.equal((await resume(world, busy)).status, 'running');
  });

  it('a paused sandbox is found by its filter and by its status', async () => {
    await using world = await openPauses();
    const [one, other] = [await world.createReady(), await world.createReady()];
    await pause(world, one);
    const list = async (query: object) =>
      (await world.call(operations.listSandboxes, { query: { ...query } })).data.map(({ id }) => id);
    assert.deepEqual(await list({ paused: true }), [one]);
    assert.deepEqual(await list({ paused: false }), [other]);
    assert.deepEqual(await list({ status: 'idle' }), [one]);
    assert.deepEqual(await list({}), [other, one]);
    assert.equal((await world.waitFor(one, 'ready')).status, 'idle');
    assert.ok(isFrozen(world, one), 'a wait wakes nothing');
  });

  it('a paused sandbox outlives its lifetime and its idle timeout, and ends with its retention', async () => {
    await using world = await openPauses();
    const id = await world.createReady({ ttlMs: 60_000, idleTimeoutMs: 10_000 });
    const witness = await world.createReady({ ttlMs: 60_000 });
    await pause(world, id, { retainMs: 100_000 });
    world.clock.advance(99_000);
    await world.until(async () => (await world.get(witness)).status === 'destroyed');
    await world.server.reconcile();
    assert.ok((await world.get(id)).paused);
    world.clock.advance(1_000);
    await world.until(async () => (await world.get(id)).status === 'destroyed');
    const ended = await world.get(id);
    assert.deepEqual([ended.destroyedReason, ended.paused], ['idle_expired', undefined]);
    assert.deepEqual(world.driver.instances(), []);
  });

  it('a paused sandbox is kept as long as the last pause says', async () => {
    await using world = await openPauses();
    const id = await world.createReady();
    const first = await pause(world, id);
    world.clock.advance(5_000);
    assert.deepEqual(await pause(world, id), first);
    const again = await pause(world, id, { retainMs: 60_000 });
    assert.equal(again.expiresAt, at(world.clock.now() + 60_000));
    assert.deepEqual(again.paused, first.paused);
    await assert.rejects(pause(world, id, { retainMs: 30 * DAY_MS + 1 }), { code: 'invalid_request' });
  });

  it('a paused sandbox has no lifetime to set', async () => {
    await using world = await openPauses();
    const id = await world.createReady();
    await pause(world, id);
    const set = () => world.call(operations.setSandboxTtl, { params: { sandboxId: id }, body: { ttlMs: 7_200_000 } });
    await assert.rejects(set(), { code: 'sandbox_paused', status: 409 });
    await resume(world, id);
    await set();
  });

  it('a paused sandbox begins a session of 24 hours at its wake', async () => {
    await using world = await openPauses();
    const id = await world.createReady();
    await world.call(operations.setSandboxTtl, { params: { sandboxId: id }, body: { ttlMs: DAY_MS } });
    world.clock.advance(DAY_MS - 60_000);
    await pause(world, id);
    world.clock.advance(60_000);
    await assert.rejects(resume(world, id, { ttlMs: DAY_MS + 1 }), {
      code: 'sandbox_ttl_exceeded',
      details: { maxTtlMs: DAY_MS },
    });
    assert.ok(isFrozen(world, id));
    const resumed = await resume(world, id, { ttlMs: DAY_MS });
    assert.deepEqual([resumed.ttlMs, resumed.expiresAt], [DAY_MS, at(world.clock.now() + DAY_MS)]);
    world.clock.advance(1);
    const past = { params: { sandboxId: id }, body: { ttlMs: DAY_MS } };
    await assert.rejects(world.call(operations.setSandboxTtl, past), { code: 'sandbox_ttl_exceeded' });
  });

  it('a paused sandbox has the lifetime of its creation after a wake that names none', async () => {
    await using world = await openPauses();
    const id = await world.createReady({ ttlMs: 60_000 });
    await world.call(operations.setSandboxTtl, { params: { sandboxId: id }, body: { ttlMs: 7_200_000 } });
    await pause(world, id);
    assert.equal((await resume(world, id)).ttlMs, 60_000);
  });

  it('a paused sandbox is destroyed at once, without a wake', async () => {
    await using world = await openPauses();
    const id = await world.createReady();
    await pause(world, id);
    assert.equal((await world.kill(id)).destroyedReason, 'user_killed');
    assert.deepEqual(world.driver.instances(), []);
    assert.deepEqual(await pauseEvents(world), ['sandbox.paused']);
    await assert.rejects(pause(world, id), { code: 'sandbox_destroyed' });
    await assert.rejects(resume(world, id), { code: 'sandbox_destroyed' });
  });

  it('a paused sandbox whose instance is lost ends with the reason of the platform, if its disk is not kept', async () => {
    await using world = await openPauses();
    world.driver.parking = undefined;
    const id = await world.createReady();
    await pause(world, id);
    world.driver.isDown = true;
    await world.server.reconcile().catch(() => undefined);
    world.driver.isDown = false;
    assert.ok((await world.get(id)).paused, 'a host that does not answer ends nothing');
    world.driver.lose(id);
    await world.server.reconcile();
    assert.equal((await world.get(id)).destroyedReason, 'platform_cleanup');
  });
});

describe('a pause', () => {
  it('a pause waits for a sandbox that is being created', async () => {
    await using world = await openPauses();
    const release = world.driver.holdLaunches();
    const { id } = await world.create();
    const paused = pause(world, id);
    release();
    assert.ok((await paused).paused);
  });

  it('a pause is refused while a run is in progress, and ends it with force', async () => {
    await using world = await openPauses();
    const id = await world.createReady();
    const run = world.run(id, 'hang');
    await world.until(() => [...world.driver.agentOf(id).contexts.values()].some(({ runs }) => runs.size > 0));
    await assert.rejects(pause(world, id), { code: 'conflict', details: { running: 1 } });
    assert.deepEqual([(await world.get(id)).status, isFrozen(world, id)], ['running', false]);
    assert.ok((await pause(world, id, { force: true })).paused);
    assert.equal((await run).error?.name, 'CanceledError');
  });

  it('a pause is refused while a waited command is in progress, and kills it with force', async () => {
    await using world = await openPauses();
    const id = await world.createReady();
    const command = world.runCommand(id, { command: ['bash', 'hang'] });
    await world.until(() => world.agent(id).areRunning);
    await assert.rejects(pause(world, id), { code: 'conflict', details: { running: 1 } });
    assert.ok((await pause(world, id, { force: true })).paused);
    assert.deepEqual((await command).status, 'killed');
  });

  it('a pause is refused where memory cannot be kept', async (test) => {
    await using world = await openPauses();
    const id = await world.createReady();
    const unsupported = { code: 'conflict', details: { reason: 'memory_unsupported' } };
    await test.test('a pause is refused where the runtime cannot freeze', async () => {
      const { freezing } = world.driver;
      world.driver.freezing = undefined;
      await assert.rejects(pause(world, id), unsupported);
      world.driver.freezing = freezing;
    });
    await test.test('a pause is refused where the agent is of an earlier release', async () => {
      const { connect } = world.driver;
      world.driver.connect = async (...parts) => ({
        ...(await connect.apply(world.driver, parts)),
        pause: async () => {
          throw new AgentError('not_found', 'no such path');
        },
      });
      await world.crash();
      await assert.rejects(pause(world, id), unsupported);
      world.driver.connect = connect;
      await world.crash();
    });
    for (const schema_version of [null, '040-first-release']) {
      await test.test(`a pause is refused while a server of the schema ${schema_version} lives`, async () => {
        const lease = { id: 'srv_older', lease_until: Number.MAX_SAFE_INTEGER, schema_version };
        await world.db.insertInto('server_leases').values(lease).execute();
        await assert.rejects(pause(world, id), unsupported);
        await world.db.deleteFrom('server_leases').where('id', '=', 'srv_older').execute();
      });
    }
    assert.deepEqual([(await world.get(id)).paused, isFrozen(world, id)], [undefined, false]);
    assert.equal((await world.run(id, 'print x')).stdout, 'x\n');
    assert.ok((await pause(world, id)).paused, 'the control');
  });

  it('a pause of an agent that does not answer freezes it all the same', async () => {
    await using world = await openPauses();
    const id = await world.createReady();
    const { connect } = world.driver;
    world.driver.connect = async (...parts) => ({
      ...(await connect.apply(world.driver, parts)),
      pause: (_token, _options, signal) => new Promise((_, reject) => signal.addEventListener('abort', reject)),
    });
    await world.crash();
    assert.ok((await pause(world, id)).paused);
    assert.ok(isFrozen(world, id));
  });

  for (const [kind, message] of [
    ['failed', /does not respond/],
    ['unreachable', /does not respond/],
    ['no_capacity', /has no memory/],
  ] as const) {
    it(`a pause whose freeze fails leaves the sandbox as it was: ${kind}`, async () => {
      await using world = await openPauses();
      const id = await world.createReady();
      const freezing = freezingOf(world);
      const freeze = freezing.freeze.bind(freezing);
      freezing.freeze = async () => {
        throw new LaunchError(kind, 'the group does not freeze');
      };
      await assert.rejects(pause(world, id), { code: 'unavailable', retryAfterSeconds: 1, message });
      assert.equal((await world.get(id)).paused, undefined);
      assert.equal((await world.run(id, 'print x')).stdout, 'x\n');
      freezing.freeze = freeze;
      assert.ok((await pause(world, id)).paused);
    });
  }

  it('a pause counts against the limits of paused sandboxes and not of live ones, exactly', async () => {
    await using world = await openPauses();
    const ids = await Promise.all(Array.from({ length: 6 }, () => world.createReady()));
    await world.limits.setOrganization(ORG, { liveSandboxes: 6, pausedSandboxes: 3 });
    const paused = await Promise.allSettled(ids.map((id) => pause(world, id)));
    const refused = paused.filter((one) => one.status === 'rejected');
    assert.equal(refused.length, 3);
    for (const { reason } of refused) assert.equal(reason.details.quota, 'pausedSandboxes');
    const created = await Promise.allSettled(Array.from({ length: 5 }, () => world.createReady()));
    assert.equal(created.filter(({ status }) => status === 'fulfilled').length, 3);

    const [first] = (await world.call(operations.listSandboxes, { query: { paused: true } })).data;
    assert.ok(first);
    await assert.rejects(resume(world, first.id), { code: 'quota_exceeded' });
    await assert.rejects(world.run(first.id, 'print x'), { code: 'quota_exceeded' });
    assert.ok((await world.get(first.id)).paused && isFrozen(world, first.id));
    await world.limits.setOrganization(ORG, { liveSandboxes: null });
    assert.equal((await world.run(first.id, 'print x')).stdout, 'x\n');
  });

  it('a pause counts the processor time up to it at once, and none while it lasts', async () => {
    await using world = await openPauses();
    const id = await world.createReady();
    const cpuMs = async () => (await world.call(operations.getSandboxUsage, { params: { sandboxId: id } })).usage.cpuMs;
    world.driver.spend(id, { cpuMs: 70 });
    await pause(world, id);
    assert.equal(await cpuMs(), 70);
    await world.usage.rollUp.pass();
    assert.equal(await cpuMs(), 70);
    await resume(world, id);
    world.driver.spend(id, { cpuMs: 5 });
    world.driver.usesOf = () => Promise.reject(new LaunchError('unreachable', 'no answer'));
    await pause(world, id);
    await world.usage.rollUp.pass();
    assert.equal(await cpuMs(), 75, 'a later count has what a pause could not ask for');
  });

  it('a pause stops what is metered but for the disk, and its own time counts', async () => {
    await using world = await openPauses();
    const id = await world.createReady({ resources: { memoryMb: 256, diskMb: 128 } });
    const usage = async () => {
      await world.usage.rollUp.pass();
      const { usage } = await world.call(operations.getSandboxUsage, { params: { sandboxId: id } });
      const [row] = (await world.call(operations.listUsage)).data;
      assert.equal(row?.pausedMs, usage.pausedMs);
      const [memoryMs, diskMs] = [usage.memoryMbMs / 256, usage.diskMbMs / 128];
      return { memoryMs, diskMs, pausedMs: usage.pausedMs, sandboxMs: row?.sandboxMs };
    };
    world.clock.advance(1_234);
    await pause(world, id);
    for (let pass = 0; pass < 3; pass += 1) {
      world.clock.advance(10_000);
      const pausedMs = 10_000 * (pass + 1);
      assert.deepEqual(await usage(), { memoryMs: 1_234, diskMs: 1_234 + pausedMs, pausedMs, sandboxMs: 1_234 });
    }
    world.clock.advance(5_000);
    await resume(world, id);
    world.clock.advance(766);
    assert.deepEqual(await usage(), { memoryMs: 2_000, diskMs: 37_000, pausedMs: 35_000, sandboxMs: 2_000 });
    await pause(world, id);
    world.clock.advance(3_000);
    await world.kill(id);
    assert.deepEqual(await usage(), { memoryMs: 2_000, diskMs: 40_000, pausedMs: 38_000, sandboxMs: 2_000 });
  });
});

describe('a wake that fails', () => {
  it('a wake that fails leaves no sandbox recorded as paused that executes, and the next one finishes it', async () => {
    await using world = await openPauses();
    const id = await world.createReady();
    await pause(world, id);
    const freezing = freezingOf(world);
    const { freeze, thaw } = freezing;
    const lost = new LaunchError('unreachable', 'no answer');
    freezing.thaw = async (...parts) => {
      await thaw.apply(freezing, parts);
      throw lost;
    };
    freezing.freeze = () => Promise.reject(lost);
    await assert.rejects(resume(world, id), { code: 'unavailable' });
    const state = async () =>
      (await world.db.selectFrom('sandboxes').select('pause_state').where('id', '=', id).executeTakeFirst())
        ?.pause_state;
    assert.deepEqual([isFrozen(world, id), await state()], [false, 'waking']);
    freezing.thaw = thaw;
    freezing.freeze = freeze;
    assert.ok((await resume(world, id)).resumed);
    assert.deepEqual([isFrozen(world, id), await state()], [false, null]);
    assert.equal((await world.run(id, 'print x')).stdout, 'x\n');
  });
});

describe('pauses and wakes at the same time', () => {
  it('pauses and wakes at the same time happen once, with one answer for all', async () => {
    await using world = await openPauses();
    const id = await world.createReady();
    const paused = await Promise.all(Array.from({ length: 50 }, () => pause(world, id)));
    for (const one of paused) assert.deepEqual(one, paused[0]);
    const resumed = await Promise.all(Array.from({ length: 50 }, () => resume(world, id)));
    for (const one of resumed) assert.deepEqual(one, resumed[0]);
    assert.deepEqual(await pauseEvents(world), ['sandbox.paused', 'sandbox.resumed']);
  });

  it('pauses and wakes at the same time through several servers happen once', async () => {
    await using world = await openPauses();
    await using other = await world.beside('srv_2');
    const id = await world.createReady();
    const worlds = [world, other];
    const each = <T>(act: (at: typeof world) => Promise<T>) =>
      Promise.all(Array.from({ length: 20 }, (_, index) => act(worlds[index % 2] ?? world)));
    await each((at) => pause(at, id));
    await each((at) => resume(at, id));
    await each((at) => pause(at, id));
    await each((at) => at.run(id, 'print x'));
    const round = ['sandbox.paused', 'sandbox.resumed'];
    assert.deepEqual(await pauseEvents(world), [...round, ...round]);
  });

  it('pauses and wakes at the same time are true one after the other', async () => {
    await using world = await openPauses();
    const id = await world.createReady();
    for (let round = 0; round < 20; round += 1) {
      const [paused, resumed] = await Promise.all([pause(world, id), resume(world, id)]);
      assert.ok(paused.paused);
      assert.equal(resumed.paused, undefined);
      assert.equal((await world.run(id, 'print x')).stdout, 'x\n');
    }
  });

  it('pauses and wakes at the same time as a deletion lose against it', async () => {
    for (const first of [pause, resume]) {
      await using world = await openPauses();
      const id = await world.createReady();
      if (first === resume) await pause(world, id);
      const [moved, killed] = await Promise.allSettled([first(world, id), world.kill(id)]);
      assert.equal(killed.status, 'fulfilled');
      if (moved.status === 'rejected') assert.equal(moved.reason.code, 'sandbox_destroyed');
      await world.until(() => world.driver.instances().length === 0);
      assert.equal((await world.get(id)).destroyedReason, 'user_killed');
    }
  });

  it('pauses and wakes at the same time as a deletion that ends their agent say that the sandbox is destroyed', async () => {
    for (const first of [pause, resume]) {
      await using world = await openPauses();
      await using other = await world.beside('srv_2');
      const id = await world.createReady();
      if (first === resume) await pause(world, id);
      const { connect } = world.driver;
      const broken = async () => {
        await other.kill(id);
        throw new AgentError('gone', 'the connection to the agent broke');
      };
      world.driver.connect = async (...parts) => ({
        ...(await connect.apply(world.driver, parts)),
        pause: broken,
        resume: broken,
      });
      await world.crash();
      await assert.rejects(first(world, id), { code: 'sandbox_destroyed' });
    }
  });
});
