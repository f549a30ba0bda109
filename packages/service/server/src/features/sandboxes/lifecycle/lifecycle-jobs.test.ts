import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { operations } from '@cloche/contract';
import type { ReconcileReport } from '@cloche/protocol';
import { openSandboxes } from '../../../../testing/sandboxes.ts';
import { DATABASE_KIND } from '../../../../testing/test-database.ts';

describe('the reaper', () => {
  it('the reaper ends a sandbox when its TTL is over, with its reason', async () => {
    await using world = await openSandboxes();
    const id = await world.createReady({ ttlMs: 10_000 });
    const other = await world.createReady();
    world.clock.advance(10_000);
    await world.until(async () => (await world.get(id)).status === 'destroyed');
    assert.equal((await world.get(id)).destroyedReason, 'ttl_expired');
    assert.equal((await world.get(other)).status, 'ready');
    assert.equal(world.driver.instances().length, 1);
  });

  it('the reaper ends one that is still creating', async () => {
    await using world = await openSandboxes();
    world.driver.holdLaunches();
    const { id } = await world.create({ ttlMs: 1000 });
    world.clock.advance(1000);
    await world.until(async () => (await world.get(id)).status === 'destroyed');
    assert.equal((await world.get(id)).destroyedReason, 'ttl_expired');
  });

  it('the reaper ends one whose time was over while no server ran', async () => {
    await using world = await openSandboxes();
    const id = await world.createReady({ ttlMs: 60_000 });
    await world.server.stop();
    world.clock.advance(3_600_000);
    await world.crash();
    await world.until(async () => (await world.get(id)).status === 'destroyed');
    assert.equal((await world.get(id)).destroyedReason, 'ttl_expired');
  });

  it('the reaper leaves one that was extended in time', async () => {
    await using world = await openSandboxes();
    const id = await world.createReady({ ttlMs: 10_000 });
    const witness = await world.createReady({ ttlMs: 10_000 });
    await world.call(operations.setSandboxTtl, { params: { sandboxId: id }, body: { ttlMs: 20_000 } });
    world.clock.advance(15_000);
    await world.until(async () => (await world.get(witness)).status === 'destroyed');
    assert.equal((await world.get(id)).status, 'ready');
  });

  it('the reaper cancels the runs of what it ends', async () => {
    await using world = await openSandboxes();
    const id = await world.createReady({ ttlMs: 10_000 });
    const run = world.run(id, 'hang');
    await world.waitFor(id, 'running');
    world.clock.advance(10_000);
    assert.equal((await run).error?.name, 'CanceledError');
  });

  it('the reaper ends an unused one when its idle time is over, used before or not', async () => {
    await using world = await openSandboxes();
    const [unused, used] = [
      await world.createReady({ idleTimeoutMs: 10_000 }),
      await world.createReady({ idleTimeoutMs: 10_000 }),
    ];
    world.clock.advance(6_000);
    await world.run(used, 'print x');
    world.clock.advance(6_000);
    await world.until(async () => (await world.get(unused)).status === 'destroyed');
    assert.equal((await world.get(unused)).destroyedReason, 'idle_expired');
    assert.equal((await world.get(used)).status, 'idle');
    // Where several servers share a database, what they write of the last use may be half a second old.
    world.clock.advance(DATABASE_KIND === 'sqlite' ? 4_000 : 4_500);
    await world.until(async () => (await world.get(used)).status === 'destroyed');
  });

  it('the reaper never calls a sandbox idle while something runs in it', async () => {
    await using world = await openSandboxes();
    const id = await world.createReady({ idleTimeoutMs: 10_000 });
    const witness = await world.createReady({ idleTimeoutMs: 10_000 });
    const run = world.run(id, 'hang');
    await world.waitFor(id, 'running');
    world.clock.advance(60_000);
    await world.until(async () => (await world.get(witness)).status === 'destroyed');
    assert.equal((await world.get(id)).status, 'running');
    await world.kill(id);
    await run;
  });

  it('the reaper ends nothing while its server has no lease, because another one may know better', async () => {
    await using world = await openSandboxes();
    const id = await world.createReady({ idleTimeoutMs: 10_000 });
    world.isFenced = true;
    const looks = world.fenceLooks;
    world.clock.advance(60_000);
    await world.until(() => world.fenceLooks > looks + 2);
    assert.equal((await world.get(id)).status, 'ready');
    world.isFenced = false;
    await world.until(async () => (await world.get(id)).status === 'destroyed');
  });

  it('the reaper remembers the last use over a restart', async () => {
    await using world = await openSandboxes();
    const id = await world.createReady({ idleTimeoutMs: 60_000 });
    world.clock.advance(50_000);
    await world.run(id, 'print x');
    await world.until(async () => {
      const table = DATABASE_KIND === 'sqlite' ? 'sandboxes' : 'sandbox_activity';
      const row = await world.db.selectFrom(table).select('last_active_at').executeTakeFirst();
      return row?.last_active_at === world.clock.now();
    });
    await world.crash();
    const witness = await world.createReady({ ttlMs: 30_000 });
    world.clock.advance(40_000);
    await world.until(async () => (await world.get(witness)).status === 'destroyed');
    assert.equal((await world.get(id)).status, 'idle');
    world.clock.advance(40_000);
    await world.until(async () => (await world.get(id)).status === 'destroyed');
  });
});

describe('the reconciler', () => {
  it('the reconciler removes an instance that has no live record', async () => {
    await using world = await openSandboxes();
    const id = await world.createReady();
    const spec = world.driver.launches[0]?.spec;
    assert.ok(spec);
    const { signal } = new AbortController();
    await world.driver.launch('sbx_unknown', 1, spec, signal);
    const report = await world.server.reconcile();
    assert.deepEqual(report, { instancesRemoved: 1, sandboxesEnded: 0 });
    assert.deepEqual(
      world.driver.instances().map(({ sandboxId }) => sandboxId),
      [id],
    );
  });

  it('the reconciler ends a ready record whose instance is lost', async () => {
    await using world = await openSandboxes();
    const id = await world.createReady();
    world.driver.lose(id);
    const reports: ReconcileReport[] = [];
    await world.until(async () => {
      reports.push(await world.server.reconcile());
      return (await world.get(id)).status === 'destroyed';
    });
    assert.deepEqual(reports.at(-1), { instancesRemoved: 0, sandboxesEnded: 1 });
    const lost = await world.get(id);
    assert.equal(lost.status, 'destroyed');
    assert.equal(lost.destroyedReason, 'platform_cleanup');
  });

  it('the reconciler leaves a launch that is under way alone', async () => {
    await using world = await openSandboxes();
    const release = world.driver.holdLaunches();
    const { id } = await world.create();
    assert.deepEqual(await world.server.reconcile(), { instancesRemoved: 0, sandboxesEnded: 0 });
    release();
    assert.equal((await world.waitFor(id, 'ready')).status, 'ready');
    assert.equal(world.driver.launches.length, 1);
  });

  it('the reconciler never disturbs many creations that go on while it looks', async () => {
    await using world = await openSandboxes();
    const creations = Array.from({ length: 20 }, () => world.createReady());
    const looks = Array.from({ length: 20 }, () => world.server.reconcile());
    for (const report of await Promise.all(looks)) {
      assert.deepEqual(report, { instancesRemoved: 0, sandboxesEnded: 0 });
    }
    const ids = await Promise.all(creations);
    for (const id of ids) assert.equal((await world.get(id)).status, 'ready');
  });

  it('the reconciler starts the launch of a dead server again as the next generation', async () => {
    await using world = await openSandboxes();
    world.driver.holdLaunches();
    const { id } = await world.create();
    world.driver.launchGate = undefined;
    await world.crash();
    assert.equal((await world.waitFor(id, 'ready')).status, 'ready');
    assert.deepEqual(
      world.driver.instances().map(({ sandboxId, generation }) => ({ sandboxId, generation })),
      [{ sandboxId: id, generation: 2 }],
    );
  });

  it('the reconciler finishes what a dead server was tearing down, with the reason that it wrote down', async () => {
    await using world = await openSandboxes();
    const id = await world.createReady();
    world.driver.isDown = true;
    await assert.rejects(world.kill(id), { code: 'unavailable' });
    world.driver.isDown = false;
    await world.crash();
    await world.until(async () => (await world.get(id)).status === 'destroyed');
    assert.equal((await world.get(id)).destroyedReason, 'user_killed');
  });

  it('the reconciler ends nothing at a place that does not answer, and what is lost once it does', async () => {
    await using world = await openSandboxes();
    const [away, lost, kept] = [await world.createReady(), await world.createReady(), await world.createReady()];
    world.driver.unreachable.add(away);
    world.driver.lose(lost);
    assert.deepEqual(await world.server.reconcile(), { instancesRemoved: 0, sandboxesEnded: 1 });
    assert.equal((await world.get(lost)).destroyedReason, 'platform_cleanup');
    for (const id of [away, kept]) assert.equal((await world.get(id)).status, 'ready');

    world.driver.lose(away);
    assert.deepEqual(await world.server.reconcile(), { instancesRemoved: 0, sandboxesEnded: 0 });
    world.driver.unreachable.clear();
    assert.deepEqual(await world.server.reconcile(), { instancesRemoved: 0, sandboxesEnded: 1 });
    assert.equal((await world.get(away)).destroyedReason, 'platform_cleanup');
  });

  it('tries again to stop a sandbox that cannot be stopped, and repairs the others meanwhile', async () => {
    await using world = await openSandboxes();
    const [stuck, other] = [await world.createReady(), await world.createReady()];
    world.driver.isDown = true;
    for (const id of [stuck, other]) await assert.rejects(world.kill(id), { code: 'unavailable' });
    world.driver.isDown = false;
    world.driver.stuck.add(stuck);
    assert.equal((await world.server.reconcile()).sandboxesEnded, 1);
    assert.equal((await world.get(other)).status, 'destroyed');
    world.driver.stuck.clear();
    assert.equal((await world.server.reconcile()).sandboxesEnded, 1);
    assert.equal((await world.get(stuck)).status, 'destroyed');
  });

  it('the reconciler ends everything when the operator says so', async () => {
    await using world = await openSandboxes();
    const ids = [await world.createReady(), await world.createReady()];
    assert.equal(await world.server.destroyAll(async () => undefined), 2);
    for (const id of ids) assert.equal((await world.get(id)).destroyedReason, 'platform_cleanup');
    assert.deepEqual(world.driver.instances(), []);
  });

  it('the reconciler ends all others before it says that one sandbox cannot be ended now', async () => {
    await using world = await openSandboxes();
    const [stuck, other] = [await world.createReady(), await world.createReady()];
    world.driver.stuck.add(stuck);
    await assert.rejects(
      world.server.destroyAll(async () => undefined),
      { code: 'unavailable' },
    );
    assert.equal((await world.get(other)).status, 'destroyed');
  });
});
