import assert from 'node:assert/strict';
import { afterEach, beforeEach, describe, it } from 'node:test';
import { type Command, type CommandEvent, operations, type SandboxId } from '@cloche/contract';
import { type CommandsWorld, openCommands } from '../../../testing/commands.ts';
import { loseLeaseConnecting } from '../../../testing/late-server.ts';
import { lostEnding } from './command.ts';
import { SqlCommandRepository } from './command-repository.ts';

let world: CommandsWorld;
let sandboxId: SandboxId;
beforeEach(async () => {
  world = await openCommands();
  sandboxId = await world.createReady();
});
afterEach(() => world[Symbol.asyncDispose]());

const statusOf = async () => (await world.call(operations.getSandbox, { params: { sandboxId } })).sandbox.status;

describe('a command that is waited for', () => {
  it('a command that is waited for answers with its output, and counts as use of its sandbox', async () => {
    const command = await world.runCommand(sandboxId, { command: 'print out; warn err; exit 3' });
    assert.deepEqual(
      [command.status, command.exitCode, command.stdout, command.stderr],
      ['exited', 3, 'out\n', 'err\n'],
    );
    assert.equal(await statusOf(), 'idle');
  });

  it('a command that is waited for is adopted, after its server died, by the next request with its key, which returns the output', async () => {
    const call = { idempotency: { recordId: 'idem_1' } };
    const lost = world
      .runCommand(sandboxId, { command: 'print one; sleep 200; print two' }, call)
      .catch((error) => error);
    await world.until(async () => (await world.listCommands(sandboxId)).length === 1);
    await world.crash();
    await lost;
    const command = await world.runCommand(sandboxId, { command: 'print one; sleep 200; print two' }, call);
    assert.equal(command.stdout, 'one\ntwo\n');
    assert.equal(world.agent(sandboxId).started, 1);
    assert.deepEqual((await world.runCommand(sandboxId, { command: 'print' }, call)).id, command.id);
  });

  it('a command that is waited for is killed when its sandbox is', async () => {
    const waited = world.runCommand(sandboxId, { command: 'hang' });
    await world.until(async () => (await statusOf()) === 'running');
    await world.call(operations.killSandbox, { params: { sandboxId } });
    assert.equal((await waited).status, 'killed');
  });

  it('a command that is waited for leaves no record when its folder does not exist', async () => {
    await assert.rejects(world.runCommand(sandboxId, { command: 'print', cwd: '/missing' }), {
      code: 'invalid_request',
    });
    assert.deepEqual(await world.listCommands(sandboxId), []);
  });

  it('a command that is waited for is not lost when commands are listed between its record and its start', async () => {
    const { transactions } = world;
    const run = transactions.run.bind(transactions);
    let listed: Command[] = [];
    // As if the answer of the database to the commit took longer than a request of another client.
    transactions.run = async (act, joined) => {
      const result = await run(act, joined);
      if (listed.length === 0) listed = await world.listCommands(sandboxId);
      return result;
    };
    const { status, stdout } = await world.runCommand(sandboxId, { command: 'print x' });
    assert.deepEqual([listed.map((command) => command.status), status, stdout], [['running'], 'exited', 'x\n']);
  });

  it('a command that is waited for is not lost when another client waits for it between its record and its start', async () => {
    const { transactions } = world;
    const run = transactions.run.bind(transactions);
    const seen: Command[] = [];
    transactions.run = async (act, joined) => {
      const result = await run(act, joined);
      const [row] = await world.db.selectFrom('commands').select('id').execute();
      if (row && seen.length === 0) {
        const params = { sandboxId, commandId: row.id };
        seen.push((await world.call(operations.getCommand, { params, query: { waitMs: 10_000 } })).command);
      }
      return result;
    };
    const { status, stdout } = await world.runCommand(sandboxId, { command: 'print x' });
    assert.deepEqual([seen.map((command) => command.status), status, stdout], [['running'], 'exited', 'x\n']);
  });
});

describe('a command in the background', () => {
  it('a command in the background makes its sandbox running until it ends', async () => {
    const command = await world.runCommand(sandboxId, { command: 'hang', background: true });
    assert.equal(await statusOf(), 'running');
    await world.call(operations.killCommand, { params: { sandboxId, commandId: command.id }, body: {} });
    await world.until(async () => (await statusOf()) === 'idle');
  });

  it('a command in the background is watched again by the next server', async () => {
    const { id } = await world.runCommand(sandboxId, { command: 'sleep 300; exit 5', background: true });
    await world.crash();
    assert.equal(await statusOf(), 'running');
    await world.until(async () => (await statusOf()) === 'idle');
    assert.equal((await world.getCommand(sandboxId, id)).exitCode, 5);
  });

  it('a command in the background keeps the ending that was recorded first', async () => {
    const { id } = await world.runCommand(sandboxId, { command: 'hang', background: true });
    const commands = new SqlCommandRepository(world.db);
    const record = (await commands.find(sandboxId, id)) ?? assert.fail('no record');
    const ended = await commands.finish(record, lostEnding(record, 'first', world.clock.now()));
    assert.deepEqual(await commands.finish(record, lostEnding(record, 'second', world.clock.now())), ended);
    assert.equal((await world.getCommand(sandboxId, id)).failureReason, 'first');
  });

  it('a command in the background that its agent has lost is failed', async () => {
    const { id } = await world.runCommand(sandboxId, { command: 'hang', background: true });
    world.agent(sandboxId).forget(id);
    assert.equal((await world.getCommand(sandboxId, id)).status, 'failed');
  });

  it('a command in the background of a destroyed sandbox counts as killed, even without a record of its end', async () => {
    const { id } = await world.runCommand(sandboxId, { command: 'hang', background: true });
    await world.call(operations.killSandbox, { params: { sandboxId } });
    const { status, signal, finishedAt } = await world.getCommand(sandboxId, id);
    assert.deepEqual([status, signal], ['killed', 'SIGKILL']);
    assert.ok(finishedAt);
  });
});

describe('a command that a server resumes late to change', () => {
  let late: CommandsWorld;
  let params: { readonly sandboxId: SandboxId; readonly commandId: string };
  beforeEach(async () => {
    late = await world.beside('srv_2');
    const { id } = await world.runCommand(sandboxId, { command: 'hang', background: true, stdinOpen: true });
    params = { sandboxId, commandId: id };
  });
  // Runs before the hook above, which ends the world that made the database.
  afterEach(() => late[Symbol.asyncDispose]());

  it('a command that a server resumes late to change gets its input once, if another server has written it meanwhile for the same request', async () => {
    const agent = world.agent(sandboxId);
    const inputs: string[] = [];
    const write = agent.writeStdin.bind(agent);
    agent.writeStdin = async (id, bytes, close) => {
      inputs.push(bytes.toString());
      await write(id, bytes, close);
    };
    const request = { params, body: { data: 'line\n' } };
    loseLeaseConnecting(late, () => world.call(operations.writeCommandStdin, request));
    await assert.rejects(late.call(operations.writeCommandStdin, request), { code: 'unavailable' });
    assert.deepEqual(inputs, [request.body.data]);
  });

  it('a command that a server resumes late to change gets its signal once, if another server has sent it while the first one wrote the audit event', async () => {
    const agent = world.agent(sandboxId);
    const signals: string[] = [];
    const kill = agent.kill.bind(agent);
    agent.kill = (id, name) => {
      signals.push(name);
      return kill(id, name);
    };
    const request = { params, body: { signal: 'SIGINT' } };
    const announce = async () => {
      late.isFenced = true;
      await world.call(operations.killCommand, request);
    };
    await assert.rejects(late.call(operations.killCommand, { ...request, audit: { announce } }), {
      code: 'unavailable',
    });
    assert.deepEqual(signals, [request.body.signal]);
  });
});

describe('the log of a command', () => {
  it('the log of a command is paged by sequence', async () => {
    const { id } = await world.runCommand(sandboxId, { command: 'print 1; print 2; print 3' });
    const params = { sandboxId, commandId: id };
    const page = await world.call(operations.listCommandLogs, { params, query: { limit: 2 } });
    assert.deepEqual([page.data.map(({ data }) => data), page.nextSeq, page.hasMore], [['1\n', '2\n'], 2, true]);
    const rest = await world.call(operations.listCommandLogs, { params, query: { afterSeq: 2 } });
    assert.deepEqual([rest.data.map(({ seq }) => seq), rest.nextSeq, rest.hasMore], [[3], 3, false]);
    const none = await world.call(operations.listCommandLogs, { params, query: { afterSeq: 3 } });
    assert.deepEqual([none.data, none.nextSeq, none.hasMore], [[], 3, false]);
  });

  it('the log of a command is followed to the exit, and numbered for clients that reconnect', async () => {
    const { id } = await world.runCommand(sandboxId, {
      command: 'print 1; sleep 20; print 2; exit 4',
      background: true,
    });
    const seen: (CommandEvent & { id?: number })[] = [];
    for await (const event of await world.follow(sandboxId, id)) seen.push(event);
    assert.deepEqual(
      seen.map((event) => event.id),
      [1, 2, undefined],
    );
    const last = seen.at(-1);
    assert.equal(last?.type === 'exit' && last.data.exitCode, 4);
    const again: CommandEvent[] = [];
    for await (const event of await world.follow(sandboxId, id, '1')) again.push(event);
    assert.deepEqual(again, seen.slice(1));
    await assert.rejects(world.follow(sandboxId, id, 'one'), { code: 'invalid_request' });
  });
});
