import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { operations, type SandboxId } from '@cloche/contract';
import { LaunchError } from '@cloche/runtime';
import { isFrozen, openPauses, pause } from '../../../../testing/pauses.ts';
import { openSandboxes, type SandboxesWorld } from '../../../../testing/sandboxes.ts';
import { ORG } from '../../../../testing/seeded-organizations.ts';
import { NEEDS_POSTGRES } from '../../../../testing/servers.ts';

const update = async (world: SandboxesWorld, sandboxId: SandboxId, body: object) =>
  (await world.call(operations.updateSandbox, { params: { sandboxId }, body })).sandbox;

describe('a change of a sandbox', () => {
  it('a change of a sandbox sets the fields that the body has and keeps the others', async () => {
    await using world = await openSandboxes();
    const id = await world.createReady({ name: 'web', metadata: { team: 'a', run: '1' } });
    const seen = async () => {
      const { name, metadata } = await world.get(id);
      return [name, metadata];
    };
    await update(world, id, {});
    assert.deepEqual(await seen(), ['web', { team: 'a', run: '1' }]);
    assert.equal((await update(world, id, { name: 'app' })).name, 'app');
    assert.deepEqual(await seen(), ['app', { team: 'a', run: '1' }]);
    // Labels are replaced as a whole.
    await update(world, id, { metadata: { team: 'b' } });
    assert.deepEqual(await seen(), ['app', { team: 'b' }]);
    await update(world, id, { name: null, metadata: {} });
    assert.deepEqual(await seen(), [undefined, {}]);
    const { data } = await world.call(operations.listSandboxes, { query: { name: 'app' } });
    assert.deepEqual(data, []);
    const rows = await world.db.selectFrom('events').select('data').where('type', '=', 'sandbox.updated').execute();
    const events = rows.map((row) => JSON.parse(row.data).sandbox);
    assert.deepEqual(
      events.map(({ name, metadata }) => [name, metadata]),
      [
        ['app', { team: 'a', run: '1' }],
        ['app', { team: 'b' }],
        [undefined, {}],
      ],
    );
  });

  it('a change of a sandbox keeps its own name, and is refused the name of another with that one', async () => {
    await using world = await openSandboxes();
    const [web, app] = [await world.createReady({ name: 'web' }), await world.createReady({ name: 'app' })];
    await update(world, web, { name: 'web' });
    const refused = { code: 'conflict', details: { sandboxId: web } };
    await assert.rejects(update(world, app, { name: 'web', metadata: { team: 'a' } }), refused);
    assert.deepEqual((await world.get(app)).metadata, {});
    await update(world, web, { name: null });
    await update(world, app, { name: 'web' });
    await world.create({ name: 'app' });
  });

  it('a change of a sandbox gives a name to exactly one of 50 sandboxes at once', async () => {
    await using world = await openSandboxes();
    const ids = await Promise.all(Array.from({ length: 50 }, async () => (await world.create()).id));
    const results = await Promise.allSettled(ids.map((id) => update(world, id, { name: 'web' })));
    assert.equal(results.filter(({ status }) => status === 'fulfilled').length, 1);
    const { data } = await world.call(operations.listSandboxes, { query: { name: 'web' } });
    assert.equal(data.length, 1);
  });

  it('a change of a sandbox gives a name to exactly one of two servers’ sandboxes and creations', {
    skip: NEEDS_POSTGRES,
  }, async () => {
    await using world = await openSandboxes();
    await using other = await world.beside('srv_2');
    for (let round = 0; round < 10; round += 1) {
      const [id, name] = [(await world.create()).id, `web-${round}`];
      const results = await Promise.allSettled([update(world, id, { name }), other.create({ name })]);
      assert.equal(results.filter(({ status }) => status === 'fulfilled').length, 1);
      const { data } = await other.call(operations.listSandboxes, { query: { name } });
      assert.equal(data.length, 1);
    }
  });

  it('a change of a sandbox does not wake it, and wakes keep it', async () => {
    await using world = await openPauses();
    const id = await world.createReady();
    const { paused } = await pause(world, id);
    assert.deepEqual((await update(world, id, { name: 'web', metadata: { team: 'a' } })).paused, paused);
    assert.ok(isFrozen(world, id));
    const { sandbox } = await world.call(operations.resumeSandbox, { params: { sandboxId: id }, body: {} });
    assert.deepEqual([sandbox.name, sandbox.metadata], ['web', { team: 'a' }]);
  });

  it('a change of a sandbox is refused once it has ended, and for labels that are too long together', async () => {
    await using world = await openSandboxes();
    const id = await world.createReady();
    const long = Object.fromEntries(['a', 'b', 'c', 'd', 'e'].map((key) => [key, 'é'.repeat(512)]));
    await assert.rejects(update(world, id, { metadata: long }), { code: 'invalid_request', message: /4096/ });
    await world.kill(id);
    await assert.rejects(update(world, id, { name: 'web' }), { code: 'sandbox_destroyed' });
    world.driver.launchErrors.push(new LaunchError('failed', 'x'));
    const { id: failed } = await world.create();
    await world.waitFor(failed, 'ready');
    await assert.rejects(update(world, failed, { name: 'web' }), { code: 'sandbox_failed' });
  });

  const CHANGES: readonly { body: object; change: object; shown: object }[] = [
    { body: {}, change: { afterIdleMs: 5_000 }, shown: { afterIdleMs: 5_000 } },
    { body: { afterIdleMs: 5_000 }, change: { afterIdleMs: null }, shown: {} },
    { body: { afterIdleMs: 5_000 }, change: { onExpiry: true }, shown: { afterIdleMs: 5_000, onExpiry: true } },
    { body: { onExpiry: true, wake: 'traffic' }, change: { onExpiry: false }, shown: { wake: 'traffic' } },
    { body: {}, change: { wake: 'explicit', wakeTtlMs: 60_000 }, shown: { wake: 'explicit', wakeTtlMs: 60_000 } },
    { body: { retainMs: 60_000 }, change: { retainMs: 90_000 }, shown: { retainMs: 90_000 } },
    { body: { retainMs: 60_000 }, change: {}, shown: { retainMs: 60_000 } },
  ];
  for (const { body, change, shown } of CHANGES) {
    it(`a change of a sandbox changes the fields of its policy that it has: ${JSON.stringify([body, change])}`, async () => {
      await using world = await openPauses();
      const { pause: standard } = await world.create();
      const id = await world.createReady({ pause: body });
      assert.deepEqual((await update(world, id, { pause: change })).pause, { ...standard, ...shown });
      assert.deepEqual((await world.get(id)).pause, { ...standard, ...shown });
    });
  }

  it('a change of a sandbox has it paused at its expiry, and no longer', async () => {
    await using world = await openPauses();
    const [kept, ended] = [
      await world.createReady({ ttlMs: 60_000 }),
      await world.createReady({ ttlMs: 60_000, pause: { onExpiry: true } }),
    ];
    await update(world, kept, { pause: { onExpiry: true } });
    await update(world, ended, { pause: { onExpiry: false } });
    world.clock.advance(60_000);
    await world.waitFor(ended, 'destroyed');
    await world.until(async () => (await world.get(kept)).paused?.by === 'expiry');
  });

  it('a change of a sandbox to a policy that cannot be obeyed is refused and changes nothing', async () => {
    await using world = await openPauses({ pauseRetentionMs: 100_000 });
    const idle = await world.createReady({ idleTimeoutMs: 60_000 });
    const refusals = [
      [{ pause: { afterIdleMs: 5_000 } }, { code: 'invalid_request', message: /idleTimeoutMs/ }],
      [{ pause: { retainMs: 100_001 } }, { code: 'invalid_request', message: /at most 100000/ }],
    ] as const;
    for (const [body, refused] of refusals)
      await assert.rejects(update(world, idle, { name: 'web', ...body }), refused);
    await world.limits.setOrganization(ORG, { pausedSandboxes: 1 });
    const place = await world.createReady({ pause: { onExpiry: true } });
    await assert.rejects(update(world, idle, { name: 'web', pause: { onExpiry: true } }), { code: 'quota_exceeded' });
    await update(world, place, { pause: { onExpiry: true, wake: 'traffic' } });
    await update(world, place, { pause: { onExpiry: false } });
    await update(world, idle, { pause: { onExpiry: true } });
    world.driver.freezing = undefined;
    const unsupported = { code: 'conflict', details: { reason: 'memory_unsupported' } };
    await assert.rejects(update(world, place, { pause: { afterIdleMs: 5_000 } }), unsupported);
    await update(world, place, { pause: { wake: 'explicit' } });
    assert.equal((await world.get(idle)).name, undefined);
  });
});
