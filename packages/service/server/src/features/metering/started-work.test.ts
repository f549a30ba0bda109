import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { SandboxId } from '@cloche/contract';
import { type CommandsWorld, openCommands } from '../../../testing/commands.ts';
import { SILENT } from '../../../testing/silent.ts';
import { list, pass, ready, sum, usageOf } from '../../../testing/usage.ts';
import { composeUsage } from '../../compose/compose-usage.ts';

describe('runs and commands', () => {
  async function openReady(): Promise<{ world: CommandsWorld; id: SandboxId }> {
    const world = await openCommands();
    return { world, id: await ready(world) };
  }

  it('runs and commands count one by one, whatever becomes of them', async () => {
    const { world, id } = await openReady();
    await using _ = world;
    for (let made = 0; made < 100; made += 1) await world.run(id, made % 2 ? 'print x' : 'fail');
    for await (const _event of await world.stream({
      params: { sandboxId: id },
      body: { code: 'print x', language: 'python' },
    }));
    await world.runCommand(id, { command: 'exit 3' });
    await world.runCommand(id, { command: 'print x', background: true });
    await assert.rejects(world.runCommand(id, { command: 'print', cwd: '/missing' }), { code: 'invalid_request' });
    await pass(world);
    const usage = await usageOf(world, id);
    assert.deepEqual([usage.runs, usage.commands], [101, 2]);
    const [row] = await list(world);
    assert.deepEqual([row?.runs, row?.commands], [101, 2]);
  });

  it('runs and commands count once for requests with the same idempotency key', async () => {
    const { world, id } = await openReady();
    await using _ = world;
    for (let made = 0; made < 3; made += 1) {
      await world.runCommand(id, { command: 'print x' }, { idempotency: { recordId: 'idem_1' } });
    }
    await pass(world);
    assert.equal((await usageOf(world, id)).commands, 1);
  });

  it('runs and commands that another server counted are added after the end of the sandbox', async () => {
    const { world, id } = await openReady();
    await using _ = world;
    const other = composeUsage({ ...world, log: SILENT });
    other.startedWork.count(await world.get(id), 'runs');
    await pass(world);
    await world.kill(id);
    await other.rollUp.pass();
    await other.rollUp.pass();
    assert.equal((await usageOf(world, id)).runs, 1);
    assert.equal(sum(await list(world), 'runs'), 1);
  });

  it('runs and commands are written when the server stops, also without an answer of the runtime', async () => {
    const { world, id } = await openReady();
    await using _ = world;
    await world.run(id, 'print x');
    world.driver.isDown = true;
    await world.usage.stop();
    world.driver.isDown = false;
    assert.equal((await usageOf(world, id)).runs, 1);
  });

  it('runs and commands are kept for the next count when one fails', async () => {
    const { world, id } = await openReady();
    await using _ = world;
    await world.run(id, 'print x');
    await world.db.schema.alterTable('usage_hours').renameTo('gone').execute();
    await assert.rejects(pass(world));
    await world.db.schema.alterTable('gone').renameTo('usage_hours').execute();
    await pass(world);
    assert.deepEqual([(await usageOf(world, id)).runs, sum(await list(world), 'runs')], [1, 1]);
  });
});
