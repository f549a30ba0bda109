import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { AgentError } from '@cloche/runtime';
import { openSandboxes } from '../../../../testing/sandboxes.ts';

describe('a sandbox whose agent speaks a protocol that the server does not', () => {
  it('a sandbox whose agent speaks a protocol that the server does not refuses work with a documented error, and lives on', async () => {
    await using world = await openSandboxes();
    const id = await world.createReady();
    world.driver.incompatible.add(id);
    await world.crash();
    await assert.rejects(world.run(id, 'print x'), { code: 'sandbox_incompatible', status: 409 });
    await world.server.reconcile();
    assert.equal((await world.get(id)).status, 'idle');
    assert.equal(world.driver.instances().length, 1);

    world.driver.incompatible.clear();
    assert.equal((await world.run(id, 'print x')).stdout, 'x\n');
  });

  it('a sandbox whose agent speaks a protocol that the server does not stays when its connection breaks', async () => {
    await using world = await openSandboxes();
    const id = await world.createReady();
    await world.run(id, 'print x');
    world.driver.incompatible.add(id);
    await assert.rejects(world.run(id, 'cut'), { code: 'unavailable' });
    assert.equal((await world.get(id)).status, 'idle');
  });

  it('a sandbox whose agent speaks a protocol that the server does not ends if its agent counts as one that misbehaves: the control', async () => {
    await using world = await openSandboxes();
    const id = await world.createReady();
    world.driver.connect = async () => {
      throw new AgentError('misbehaved', 'the agent speaks another protocol');
    };
    await world.crash();
    await assert.rejects(world.run(id, 'print x'));
    await world.until(async () => (await world.get(id)).status === 'failed');
    assert.equal(world.driver.instances().length, 0);
  });

  it('a sandbox whose agent speaks a protocol that the server does not is deleted as any other', async () => {
    await using world = await openSandboxes();
    const id = await world.createReady();
    world.driver.incompatible.add(id);
    await world.kill(id);
    assert.equal((await world.get(id)).destroyedReason, 'user_killed');
    assert.deepEqual(world.driver.instances(), []);
  });
});
