import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { SandboxChanges } from './sandbox-changes.ts';
import { openSandboxes } from './sandboxes.fixture.ts';
import { SqlSandboxRepository } from './sql-sandbox-repository.ts';

async function openReady() {
  const world = await openSandboxes();
  const sandboxes = new SqlSandboxRepository(world.db, new SandboxChanges());
  const record = await sandboxes.find(await world.createReady());
  assert.ok(record);
  return { world, sandboxes, record };
}

describe('the records of sandboxes', () => {
  it('give a change to one of two that decided on the same state', async () => {
    const { world, sandboxes, record } = await openReady();
    await using _ = world;
    const [fail, end] = await Promise.all([
      sandboxes.transition(record, 'fail', { failureReason: 'x' }),
      sandboxes.transition(record, 'end', { endingReason: 'user_killed' }),
    ]);
    assert.equal([fail, end].filter(Boolean).length, 1);
  });

  it('refuse a change that names another generation', async () => {
    const { world, sandboxes, record } = await openReady();
    await using _ = world;
    assert.equal(await sandboxes.transition({ ...record, generation: 2 }, 'fail'), undefined);
  });

  it('refuse a change that the table does not have', async () => {
    const { world, sandboxes, record } = await openReady();
    await using _ = world;
    for (const transition of ['launch', 'open', 'relaunch', 'destroy'] as const) {
      assert.equal(await sandboxes.transition(record, transition), undefined);
    }
    assert.equal((await sandboxes.find(record.id))?.status, 'ready');
  });

  it('let no end that was decided before an extension undo it', async () => {
    const { world, sandboxes, record } = await openReady();
    await using _ = world;
    assert.ok(await sandboxes.setTtl(record, { ttlMs: 5000, expiresAt: record.expiresAt + 5000 }));
    assert.equal(await sandboxes.transition(record, 'end', { endingReason: 'ttl_expired' }), undefined);
    assert.equal(await sandboxes.setTtl(record, { ttlMs: 1, expiresAt: record.expiresAt + 1 }), undefined);
  });
});
