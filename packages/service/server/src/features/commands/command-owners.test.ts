/** Which of several servers of one database waits for the end of a command. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { operations, type SandboxId } from '@cloche/contract';
import { AgentError } from '@cloche/runtime';
import { eventually } from '@cloche/testkit/eventually';
import { callOf } from '../../../testing/call.ts';
import { type CommandsWorld, openCommands } from '../../../testing/commands.ts';
import { credentialOf } from '../../../testing/seeded-organizations.ts';
import { DATABASE_KIND } from '../../../testing/test-database.ts';
import type { RequestAudit } from '../../platform/audit-log/request-audit.ts';

const skip = DATABASE_KIND === 'sqlite' && 'takes PostgreSQL: `npm test -- postgres`';

const watcherOf = async ({ db }: CommandsWorld, id: string) =>
  (await db.selectFrom('commands').select('watched_by').where('id', '=', id).executeTakeFirst())?.watched_by;

/** Returns the status in the record, without a look at the agent. */
const statusOf = async ({ db }: CommandsWorld, id: string) =>
  (await db.selectFrom('commands').select('status').where('id', '=', id).executeTakeFirst())?.status;

describe('a command in the background, with several servers', { skip }, () => {
  it('a command in the background, with several servers, is watched by another one when its server no longer lives, and its sandbox does not become idle', async () => {
    await using a = await openCommands();
    await using b = await a.beside('srv_2');
    const sandboxId = await a.createReady({ idleTimeoutMs: 60_000 });
    const { id } = await a.runCommand(sandboxId, { command: 'hang', background: true });
    assert.equal(await watcherOf(a, id), 'srv_1');
    await a.loseLease();
    await eventually(async () => (await watcherOf(b, id)) === 'srv_2', { because: 'the other server watches it' });
    await eventually(async () => (await b.get(sandboxId)).status === 'running', { because: 'it counts there' });
    const witness = await b.createReady({ idleTimeoutMs: 60_000 });
    a.clock.advance(70_000);
    await eventually(async () => (await b.get(witness)).status === 'destroyed', { because: 'idle sandboxes end' });
    assert.equal((await b.get(sandboxId)).status, 'running');
    await b.agent(sandboxId).kill(id, 'SIGTERM');
    await eventually(async () => (await b.get(sandboxId)).status === 'idle', { because: 'the command has ended' });
    assert.equal((await b.getCommand(sandboxId, id)).status, 'killed');
  });

  it('a command in the background, with several servers, stays with the server that watches it when the first one, which was paused, gives up its commands', async () => {
    await using a = await openCommands();
    await using b = await a.beside('srv_2');
    const sandboxId = await a.createReady();
    const { id } = await a.runCommand(sandboxId, { command: 'hang', background: true });
    await a.loseLease();
    await eventually(async () => (await watcherOf(b, id)) === 'srv_2', { because: 'the other server watches it' });
    await a.stopCommands();
    assert.equal(await watcherOf(b, id), 'srv_2');
    await b.agent(sandboxId).kill(id, 'SIGTERM');
    await eventually(async () => (await statusOf(b, id)) === 'killed', { because: 'its end is written' });
  });

  it('a command in the background, with several servers, is watched by another one at once when its server stops', async () => {
    await using a = await openCommands();
    await using b = await a.beside('srv_2');
    const sandboxId = await a.createReady();
    const { id } = await a.runCommand(sandboxId, { command: 'hang', background: true });
    await a.stopCommands();
    await eventually(async () => (await watcherOf(b, id)) === 'srv_2', { because: 'the other server watches it' });
    await b.agent(sandboxId).kill(id, 'SIGTERM');
    const row = b.db.selectFrom('commands').select('status').where('id', '=', id);
    await eventually(async () => (await row.executeTakeFirst())?.status === 'killed', {
      because: 'its end is written',
    });
  });
});

describe('a command that is waited for, with several servers', { skip }, () => {
  it('a command that is waited for, with several servers, is killed when its sandbox is destroyed through another server', async () => {
    await using a = await openCommands();
    await using b = await a.beside('srv_2');
    const sandboxId = await a.createReady();
    const waited = a.runCommand(sandboxId, { command: 'hang' });
    await eventually(() => a.agent(sandboxId).started === 1, { because: 'the command has started' });
    await b.call(operations.killSandbox, { params: { sandboxId } });
    const { id, status, signal } = await waited;
    assert.deepEqual([status, signal], ['killed', 'SIGKILL']);
    assert.equal((await b.getCommand(sandboxId, id)).status, 'killed');
  });
});

describe('a command whose server was cut off before it started it', { skip }, () => {
  const body = { command: 'hang', background: true };

  /** Requests a command whose server does `after` between the record and the start. */
  function createWith(world: CommandsWorld, sandboxId: SandboxId, after: () => void): Promise<unknown> {
    const call = callOf({
      credential: credentialOf(),
      receivedAt: world.clock.now(),
      idempotency: { recordId: 'idem_1' },
      // Appended to the log in the transaction that writes the record.
      audit: { append: async () => after() } as unknown as RequestAudit,
    });
    return world.createCommand.create(call, { sandboxId, body });
  }

  it('a command whose server was cut off before it started it is started by the server that gets the request again, and by no other', async () => {
    await using a = await openCommands();
    await using b = await a.beside('srv_2');
    const sandboxId = await a.createReady();
    const creating = createWith(a, sandboxId, () => {
      a.isFenced = true;
    });
    await assert.rejects(creating, { code: 'unavailable' });
    assert.equal(a.agent(sandboxId).started, 0);
    const { id, status } = await b.runCommand(sandboxId, body, { idempotency: { recordId: 'idem_1' } });
    assert.equal(status, 'running');
    assert.equal(await watcherOf(b, id), 'srv_2');
    assert.equal(b.agent(sandboxId).started, 1);
  });

  it('a command whose server was cut off before it started it is not started any more once others may count it as lost, also by a server that has its lease again', async () => {
    await using a = await openCommands();
    await using b = await a.beside('srv_2');
    const sandboxId = await a.createReady();
    const creating = createWith(a, sandboxId, () => a.clock.advance(8_000));
    await assert.rejects(creating, { code: 'unavailable' });
    await a.loseLease();
    const row = b.db.selectFrom('commands').select('status');
    await eventually(async () => (await row.executeTakeFirst())?.status === 'failed', { because: 'it is lost' });
    assert.equal((await b.runCommand(sandboxId, body, { idempotency: { recordId: 'idem_1' } })).status, 'failed');
    assert.equal(b.agent(sandboxId).started, 0);
  });
});

describe('a command that its agent refused to start', () => {
  it('a command that its agent refused to start is kept if its server is paused before it removes it, and another one has started it since', async () => {
    await using a = await openCommands();
    await using b = await a.beside('srv_2');
    const sandboxId = await a.createReady();
    const agent = a.agent(sandboxId);
    const [refusedOnce, goOn] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    const start = agent.start.bind(agent);
    agent.start = async () => {
      refusedOnce.resolve();
      await goOn.promise;
      throw new AgentError('busy', '128 commands are already running.');
    };
    const request = { command: 'hang', background: true };
    const refused = assert.rejects(a.runCommand(sandboxId, request, { idempotency: { recordId: 'idem_1' } }), {
      code: 'unavailable',
    });
    await refusedOnce.promise;
    agent.start = start;
    const { id } = await b.runCommand(sandboxId, request, { idempotency: { recordId: 'idem_1' } });
    goOn.resolve();
    await refused;
    assert.deepEqual([agent.started, await watcherOf(b, id)], [1, 'srv_2']);
    await agent.kill(id, 'SIGTERM');
    await eventually(async () => (await statusOf(b, id)) === 'killed', { because: 'its end is written' });
  });
});

describe('a command that another server is about to start', () => {
  /** Inserts the record of a command that the agent does not know. */
  async function insertStarting(
    world: CommandsWorld,
    sandboxId: SandboxId,
    server: string,
    recordId: string | null = null,
  ): Promise<string> {
    const command = { command: '"x"', cwd: '/workspace', user: 'user', background: 1, status: 'running' as const };
    const id = world.ids.next('cmd_');
    const row = { id, sandbox_id: sandboxId, generation: 1, ...command, started_at: world.clock.now() };
    await world.db
      .insertInto('commands')
      .values({ ...row, watched_by: server, idempotency_record_id: recordId })
      .execute();
    return id;
  }

  it('a command that another server is about to start is not lost until that server has had time to start it', async () => {
    await using a = await openCommands();
    await using b = await a.beside('srv_2');
    const sandboxId = await a.createReady();
    const id = await insertStarting(a, sandboxId, 'srv_1');
    b.clock.advance(29_999);
    assert.equal((await b.getCommand(sandboxId, id)).status, 'running');
    assert.deepEqual(
      (await b.listCommands(sandboxId)).map(({ status }) => status),
      ['running'],
    );
    b.clock.advance(1);
    assert.equal((await b.getCommand(sandboxId, id)).status, 'failed');
  });

  it('a command that another server is about to start is lost if that server no longer lives', async () => {
    await using a = await openCommands();
    await using b = await a.beside('srv_2');
    const sandboxId = await a.createReady();
    const id = await insertStarting(a, sandboxId, 'srv_1');
    await a.loseLease();
    await eventually(async () => (await b.getCommand(sandboxId, id)).status === 'failed', { because: 'it is lost' });
  });

  it('a command that another server is about to start is not started by a server that was paused, once another one has recorded it as lost', async () => {
    for (const look of skip ? ['a request'] : ['a watch', 'a request']) {
      await using a = await openCommands();
      await using b = await a.beside('srv_2');
      const sandboxId = await a.createReady();
      const agent = a.agent(sandboxId);
      const [begun, goOn] = [Promise.withResolvers<string>(), Promise.withResolvers<void>()];
      const start = agent.start.bind(agent);
      agent.start = async (id, request) => {
        begun.resolve(id);
        await goOn.promise;
        return start(id, request);
      };
      const creation = a.runCommand(sandboxId, { command: 'print x', background: true });
      const refused = assert.rejects(creation);
      const id = await begun.promise;
      await a.loseLease();
      if (look === 'a watch')
        await eventually(async () => (await statusOf(b, id)) === 'failed', { because: 'the watch finds it lost' });
      else assert.equal((await b.getCommand(sandboxId, id)).status, 'failed');
      goOn.resolve();
      await refused;
      assert.equal(agent.started, 0);
      assert.equal((await b.getCommand(sandboxId, id)).status, 'failed');
    }
  });

  it('a command that another server is about to start is not lost if it is that of a workspace run, whose next server starts it', {
    skip,
  }, async () => {
    await using a = await openCommands();
    const sandboxId = await a.createReady();
    const id = await insertStarting(a, sandboxId, 'srv_dead', 'wrun_1');
    const witness = await insertStarting(a, sandboxId, 'srv_dead');
    const statusOf = async (command: string) =>
      (await a.db.selectFrom('commands').select('status').where('id', '=', command).executeTakeFirstOrThrow()).status;
    await eventually(async () => (await statusOf(witness)) === 'failed', { because: 'other commands are lost' });
    assert.equal(await statusOf(id), 'running');
    const started = await a.runCommand(
      sandboxId,
      { command: 'hang', background: true },
      { idempotency: { recordId: 'wrun_1' } },
    );
    assert.deepEqual([started.id, started.status], [id, 'running']);
    assert.equal(a.agent(sandboxId).started, 1);
  });

  it('a command that another server is about to start is followed once it has started', async () => {
    await using a = await openCommands();
    await using b = await a.beside('srv_2');
    const sandboxId = await a.createReady();
    const id = await insertStarting(a, sandboxId, 'srv_1');
    const events: string[] = [];
    const following = (async () => {
      for await (const event of await b.follow(sandboxId, id)) {
        events.push(event.type === 'log' ? event.data.data : event.data.status);
      }
    })();
    const request = { argv: ['print out'], cwd: '/workspace', env: {}, user: 'user', stdinOpen: false } as const;
    await a.agent(sandboxId).start(id, { ...request, argv: [...request.argv], logBytes: 1000 });
    await following;
    assert.deepEqual(events, ['out\n', 'exited']);
  });
});
