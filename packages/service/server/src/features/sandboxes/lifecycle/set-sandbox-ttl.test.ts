import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { operations, type SandboxId } from '@cloche/contract';
import { LaunchError } from '@cloche/runtime';
import { openSandboxes, type SandboxesWorld } from '../../../../testing/sandboxes.ts';

const HOUR_MS = 3_600_000;

async function setTtl(world: SandboxesWorld, sandboxId: SandboxId, ttlMs: number) {
  return (await world.call(operations.setSandboxTtl, { params: { sandboxId }, body: { ttlMs } })).sandbox;
}

describe('setting the TTL', () => {
  it('counts from the request', async () => {
    await using world = await openSandboxes();
    const { id } = await world.create();
    world.clock.advance(1000);
    const sandbox = await setTtl(world, id, 2 * HOUR_MS);
    assert.equal(Date.parse(sandbox.expiresAt), world.clock.now() + 2 * HOUR_MS);
    assert.equal(sandbox.ttlMs, 2 * HOUR_MS);
  });

  it('setting the TTL works the same by its deprecated alias', async () => {
    await using world = await openSandboxes();
    const { id } = await world.create();
    const call = { params: { sandboxId: id }, body: { ttlMs: 2 * HOUR_MS } };
    const { sandbox } = await world.call(operations.extendSandbox, call);
    assert.equal(Date.parse(sandbox.expiresAt), world.clock.now() + 2 * HOUR_MS);
  });

  it('setting the TTL must move the expiry later', async () => {
    await using world = await openSandboxes();
    const { id } = await world.create();
    for (const ttlMs of [1, HOUR_MS]) {
      await assert.rejects(setTtl(world, id, ttlMs), { code: 'invalid_request', message: /body\.ttlMs/ });
    }
    await setTtl(world, id, HOUR_MS + 2);
  });

  it('setting the TTL stays within 24 hours of the creation and says how much is left', async () => {
    await using world = await openSandboxes();
    const { id } = await world.create();
    const refused = (ttlMs: number, maxTtlMs: number) =>
      assert.rejects(setTtl(world, id, ttlMs), { code: 'sandbox_ttl_exceeded', details: { maxTtlMs } });
    await refused(24 * HOUR_MS + 1, 24 * HOUR_MS);
    world.clock.advance(HOUR_MS / 2);
    await refused(24 * HOUR_MS, 23.5 * HOUR_MS);
    await setTtl(world, id, 23.5 * HOUR_MS);
    await refused(23.5 * HOUR_MS + 1, 23.5 * HOUR_MS);
  });

  it('setting the TTL does not revive a sandbox whose time is up, before the reaper has come', async () => {
    await using world = await openSandboxes();
    const { id } = await world.create({ ttlMs: 1000 });
    world.clock.advance(1000);
    await assert.rejects(setTtl(world, id, HOUR_MS), { code: 'sandbox_destroyed', details: { reason: 'ttl_expired' } });
  });

  it('setting the TTL needs a live sandbox', async () => {
    await using world = await openSandboxes();
    const destroyed = await world.createReady();
    await world.kill(destroyed);
    await assert.rejects(setTtl(world, destroyed, 2 * HOUR_MS), { code: 'sandbox_destroyed' });
    world.driver.launchErrors.push(new LaunchError('failed', 'x'));
    const { id: failed } = await world.create();
    await world.waitFor(failed, 'ready');
    await assert.rejects(setTtl(world, failed, 2 * HOUR_MS), { code: 'sandbox_failed' });
  });

  it('setting the TTL keeps the latest of many at once', async () => {
    await using world = await openSandboxes();
    const { id } = await world.create();
    const ttls = [3, 5, 2, 9, 4].map((hours) => hours * HOUR_MS);
    await Promise.allSettled(ttls.map((ttlMs) => setTtl(world, id, ttlMs)));
    assert.equal(Date.parse((await world.get(id)).expiresAt), world.clock.now() + 9 * HOUR_MS);
  });
});
