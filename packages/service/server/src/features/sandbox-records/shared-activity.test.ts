/** Tests that several servers agree about the activity in a sandbox. A SQLite file has one server. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { operations, type SandboxId } from '@cloche/contract';
import { AgentError } from '@cloche/runtime';
import { eventually } from '@cloche/testkit/eventually';
import { openSandboxes, type SandboxesWorld } from '../../../testing/sandboxes.ts';
import { DATABASE_KIND } from '../../../testing/test-database.ts';

const skip = DATABASE_KIND === 'sqlite' && 'takes PostgreSQL: `npm test -- postgres`';

const becomes = (world: SandboxesWorld, id: SandboxId, wanted: string) =>
  eventually(async () => (await world.get(id)).status === wanted, { because: `${world.serverId} shows ${wanted}` });

/** Ends the run that hangs in the sandbox. */
async function interrupt({ driver }: SandboxesWorld, id: SandboxId): Promise<void> {
  const agent = driver.agentOf(id);
  const [contextId = ''] = agent.contexts.keys();
  await agent.client().interrupt(contextId, AbortSignal.timeout(60_000));
}

describe('the activity in a sandbox, with several servers', { skip }, () => {
  it('the activity in a sandbox, with several servers, is shown by every server, and by its list', async () => {
    await using a = await openSandboxes();
    await using b = await a.beside('srv_2');
    const id = await a.createReady();
    const listed = async (status: string) =>
      (await b.call(operations.listSandboxes, { query: { status } })).data.map((sandbox) => sandbox.id);
    const run = a.run(id, 'hang');
    await becomes(b, id, 'running');
    assert.deepEqual([await listed('running'), await listed('idle')], [[id], []]);
    await interrupt(a, id);
    await run;
    await becomes(b, id, 'idle');
    assert.deepEqual([await listed('running'), await listed('idle')], [[], [id]]);
  });

  it('the activity in a sandbox, with several servers, keeps it from being idle while one of them runs something, and ends it after that', async () => {
    await using a = await openSandboxes();
    await using b = await a.beside('srv_2');
    await using c = await a.beside('srv_3');
    const id = await a.createReady({ idleTimeoutMs: 1_000 });
    // So the servers decide by what they know of each other.
    a.driver.agentOf(id).claim = false;
    const run = a.run(id, 'hang');
    await becomes(b, id, 'running');
    for (const server of [a, b, c]) {
      const witness = await server.createReady({ idleTimeoutMs: 1_000 });
      a.clock.advance(60_000);
      await server.until(async () => (await server.get(witness)).status === 'destroyed');
      assert.equal((await c.get(id)).status, 'running');
    }
    await interrupt(a, id);
    await run;
    await becomes(c, id, 'idle');
    a.clock.advance(2_000);
    await c.until(async () => (await c.get(id)).status === 'destroyed');
    assert.equal((await c.get(id)).destroyedReason, 'idle_expired');
  });

  it('the activity in a sandbox, with several servers, that begins after the last poll of a server, which is paused then, keeps the sandbox', async () => {
    await using a = await openSandboxes();
    await using b = await a.beside('srv_2');
    const id = await a.createReady({ idleTimeoutMs: 60_000 });
    // Only the first server ends sandboxes.
    b.isFenced = true;
    const { sandboxes } = a.server.core;
    const transition = sandboxes.transition.bind(sandboxes);
    const [decided, goOn] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    const written = Promise.withResolvers<boolean>();
    sandboxes.transition = async (...change) => {
      decided.resolve();
      await goOn.promise;
      const record = await transition(...change);
      written.resolve(record !== undefined);
      return record;
    };
    a.clock.advance(70_000);
    await decided.promise;
    const run = b.run(id, 'hang');
    await becomes(a, id, 'running');
    goOn.resolve();
    assert.equal(await written.promise, false);
    assert.equal((await b.get(id)).status, 'running');
    await b.kill(id);
    await run;
  });

  it('the activity in a sandbox, with several servers of a dead server counts as over, and its last use is kept', async () => {
    await using a = await openSandboxes();
    await using b = await a.beside('srv_2');
    const id = await a.createReady({ idleTimeoutMs: 60_000 });
    a.clock.advance(50_000);
    const run = a.run(id, 'hang');
    await becomes(b, id, 'running');
    await a.loseLease();
    await becomes(b, id, 'idle');
    await b.server.reconcile();
    const query = b.db.selectFrom('sandboxes').select('last_active_at').where('id', '=', id);
    assert.equal((await query.executeTakeFirstOrThrow()).last_active_at, a.clock.now());
    await a.kill(id);
    await run;
  });

  it('the activity in a sandbox, with several servers, is written for many short runs at once, and leaves no row when its sandbox has ended', async () => {
    await using world = await openSandboxes();
    const rows = () => world.db.selectFrom('sandbox_activity').selectAll().execute();
    const ids = await Promise.all(Array.from({ length: 5 }, () => world.createReady()));
    for (let round = 0; round < 5; round += 1) await Promise.all(ids.map((id) => world.run(id, 'print x')));
    const isWritten = async () => (await rows()).filter(({ running }) => running === 0).length === ids.length;
    await eventually(isWritten, { because: 'the activity in each is written' });
    for (const { last_active_at } of await rows()) assert.equal(last_active_at, world.clock.now());
    for (const id of ids) await world.kill(id);
    await world.server.reconcile();
    assert.deepEqual(await rows(), []);
  });
});

describe('the end of an idle sandbox', () => {
  it('the end of an idle sandbox waits while its agent says that something runs, whichever server started it', async () => {
    await using world = await openSandboxes();
    const [id, witness] = [
      await world.createReady({ idleTimeoutMs: 10_000 }),
      await world.createReady({ idleTimeoutMs: 10_000 }),
    ];
    const agent = world.driver.agentOf(id);
    agent.claim = true;
    world.clock.advance(20_000);
    await world.until(async () => (await world.get(witness)).status === 'destroyed' && agent.asked > 0);
    assert.equal((await world.get(id)).status, 'ready');
    agent.claim = false;
    world.clock.advance(20_000);
    await world.until(async () => (await world.get(id)).status === 'destroyed');
    assert.equal((await world.get(id)).destroyedReason, 'idle_expired');
  });

  it('the end of an idle sandbox waits for half a minute at most while its agent does not answer', async () => {
    await using world = await openSandboxes();
    const id = await world.createReady({ idleTimeoutMs: 10_000 });
    const agent = world.driver.agentOf(id);
    agent.claim = new AgentError('gone', 'no answer');
    world.clock.advance(20_000);
    await world.until(() => agent.asked > 0);
    assert.equal((await world.get(id)).status, 'ready');
    world.clock.advance(40_000);
    await world.until(async () => (await world.get(id)).status === 'destroyed');
  });
});
