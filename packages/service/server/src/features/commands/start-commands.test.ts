import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { SandboxId } from '@cloche/contract';
import { AgentError } from '@cloche/runtime';
import { type CommandsWorld, openCommands } from '../../../testing/commands.ts';
import { NEEDS_POSTGRES } from '../../../testing/servers.ts';
import type { AppError } from '../../platform/base/app-error.ts';

/** Returns the commands of a sandbox once there are `count`. */
async function commandsOf(world: CommandsWorld, id: SandboxId, count = 1) {
  await world.until(async () => (await world.listCommands(id)).length >= count);
  return world.listCommands(id);
}

/** Creates a sandbox whose server ends between its launch and its start command. */
async function createLeft(world: CommandsWorld, startCommand: object): Promise<SandboxId> {
  await world.startCommands.stop();
  const id = await world.createReady({ startCommand });
  assert.deepEqual(await world.listCommands(id), []);
  return id;
}

describe('a start command', () => {
  for (const [what, startCommand, shown] of [
    ['a shell line', { command: 'hang' }, { command: 'hang', cwd: '/workspace' }],
    ['a program', { command: ['bash', 'hang'], cwd: 'app' }, { command: ['bash', 'hang'], cwd: '/workspace/app' }],
    ['a folder', { command: 'hang', cwd: '/srv' }, { command: 'hang', cwd: '/srv' }],
  ] as const) {
    it(`a start command that is ${what} runs in the background of its sandbox`, async () => {
      await using world = await openCommands();
      const { id } = await world.create({ startCommand });
      const [command, ...others] = await commandsOf(world, id);
      assert.deepEqual(others, []);
      assert.partialDeepStrictEqual(command, { ...shown, status: 'running', background: true, user: 'user' });
      // It is listed before the server waits for its end.
      await world.until(async () => (await world.get(id)).status === 'running');
      assert.ok(!('startCommand' in (await world.get(id))));
      await world.kill(id);
      assert.equal((await world.listCommands(id))[0]?.status, 'killed');
    });
  }

  it('a start command has its own environment', async () => {
    await using world = await openCommands();
    const startCommand = { command: 'env LEVEL', env: { LEVEL: 'debug' } };
    const id = await world.createReady({ startCommand });
    const [command] = await commandsOf(world, id);
    assert.ok(command);
    await world.until(async () => (await world.getCommand(id, command.id)).status === 'exited');
    const { entries } = await world.agent(id).readLog(command.id, 0, 10);
    assert.deepEqual(
      entries.map(({ data }) => data),
      ['debug\n'],
    );
  });

  for (const [what, startCommand, reason] of [
    ['names a missing program', { command: ['missing'] }, /No such file/],
    ['has a missing folder', { command: 'hang', cwd: '/missing' }, /cwd/],
  ] as const) {
    it(`a start command that ${what} is a failed command with its reason, and the sandbox is ready`, async () => {
      await using world = await openCommands();
      const id = await world.createReady({ startCommand });
      await world.until(async () => (await world.listCommands(id))[0]?.status === 'failed');
      const [command, ...others] = await world.listCommands(id);
      assert.deepEqual(others, []);
      assert.match(command?.failureReason ?? '', reason);
      assert.equal((await world.runCommand(id, { command: ['bash', 'print x'] })).stdout, 'x\n');
    });
  }

  it('a start command is tried again while its agent does not answer', async () => {
    await using world = await openCommands();
    const id = await createLeft(world, { command: 'hang' });
    const agent = world.agent(id);
    const start = agent.start.bind(agent);
    const refusals = [new AgentError('busy', 'too many commands'), new AgentError('gone', 'the connection broke')];
    agent.start = async (...given) => {
      const refusal = refusals.pop();
      if (refusal) throw refusal;
      return start(...given);
    };
    await world.crash();
    await world.until(() => agent.started === 1);
    assert.equal((await commandsOf(world, id))[0]?.status, 'running');
  });

  it('a start command that its server has left begins at the next start of a server, once', async () => {
    await using world = await openCommands();
    const left = await createLeft(world, { command: 'hang' });
    const ended = await createLeft(world, { command: 'hang' });
    await world.kill(ended);
    await world.crash();
    const [command] = await commandsOf(world, left);
    assert.equal(command?.status, 'running');
    await world.crash();
    for (let times = 0; times < 5; times += 1)
      world.startCommands.begin({ id: left, startCommand: { command: 'hang' } });
    await world.startCommands.stop();
    assert.deepEqual(
      (await world.listCommands(left)).map(({ id }) => id),
      [command.id],
    );
    assert.equal(world.agent(left).started, 1);
    assert.deepEqual(await world.listCommands(ended), []);
  });

  it('a start command that its server has left is begun by another server, once', {
    skip: NEEDS_POSTGRES,
  }, async () => {
    await using world = await openCommands();
    await using other = await world.beside('srv_2');
    const id = await createLeft(world, { command: 'hang' });
    await world.loseLease();
    world.clock.advance(11_000);
    assert.equal((await commandsOf(other, id))[0]?.status, 'running');
    assert.equal(other.agent(id).started, 1);
  });

  it('a start command begins again when its sandbox has a new memory, and not otherwise', async () => {
    await using world = await openCommands();
    const startCommand = { command: 'hang' };
    const id = await world.createReady({ startCommand });
    const [first] = await commandsOf(world, id);
    world.startCommands.begin({ id, startCommand });
    // As after a wake from files.
    await world.db.updateTable('sandboxes').set({ generation: 2 }).where('id', '=', id).execute();
    await world.until(async () => {
      world.startCommands.begin({ id, startCommand });
      return (await world.listCommands(id)).length === 2;
    });
    await world.startCommands.stop();
    assert.equal((await world.listCommands(id))[0]?.id, first?.id);
    assert.equal((await world.listCommands(id)).length, 2);
  });

  it('a start command that no creation takes is refused with the field', async () => {
    await using world = await openCommands();
    for (const [startCommand, path] of [
      [{ command: ['', 'x'] }, 'body.startCommand.command.0'],
      [{ command: ['bash', 'é'.repeat(16 * 1024)] }, 'body.startCommand'],
      [{ command: 'x', env: { A: 'x'.repeat(32 * 1024) } }, 'body.startCommand'],
    ] as const) {
      await assert.rejects(world.create({ startCommand }), (error: AppError<'invalid_request'>) => {
        assert.deepEqual([error.code, error.details?.issues.map((issue) => issue.path)], ['invalid_request', [path]]);
        return true;
      });
    }
    assert.equal(world.driver.launches.length, 0);
  });
});
