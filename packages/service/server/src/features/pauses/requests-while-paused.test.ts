/** What requests do that arrive while their sandbox is paused, or is being paused. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { type ContextId, LIMITS, operations, type SandboxId, type Signal } from '@cloche/contract';
import { freezingOf, isFrozen, openPauses, pause, pauseEvents, resume } from '../../../testing/pauses.ts';

type World = Awaited<ReturnType<typeof openPauses>>;

const killCommand = async (world: World, sandboxId: SandboxId, commandId: string, signal: Signal) =>
  (await world.call(operations.killCommand, { params: { sandboxId, commandId }, body: { signal } })).command;

describe('a request to a paused sandbox', () => {
  it('a request to a paused sandbox wakes it once for all that wait, which are executed once each', async () => {
    await using world = await openPauses();
    const id = await world.createReady();
    await world.run(id, 'set n 0');
    await pause(world, id);
    const runs = await Promise.all(Array.from({ length: 50 }, (_, n) => world.run(id, `print ${n}`)));
    assert.deepEqual(
      runs.map(({ stdout }) => stdout),
      Array.from({ length: 50 }, (_, n) => `${n}\n`),
    );
    assert.deepEqual(await pauseEvents(world), ['sandbox.paused', 'sandbox.resumed']);
    assert.equal((await world.get(id)).resumed?.by, 'operation');
  });

  it('a request to a paused sandbox counts its wait in its own time limit', async () => {
    await using world = await openPauses();
    const id = await world.createReady();
    await pause(world, id);
    const freezing = freezingOf(world);
    const thaw = freezing.thaw.bind(freezing);
    const thawed = Promise.withResolvers<void>();
    freezing.thaw = async (...parts) => {
      await thawed.promise;
      return thaw(...parts);
    };
    const run = await world.run(id, 'print x', { timeoutMs: 50 });
    assert.equal(run.error?.name, 'TimeoutError');
    thawed.resolve();
    assert.equal((await world.run(id, 'print x')).stdout, 'x\n');
  });

  it(`a request to a paused sandbox is refused beyond ${LIMITS.wakeWaitersPerSandbox} that wait`, async () => {
    await using world = await openPauses();
    const id = await world.createReady();
    await pause(world, id);
    const resumes = Array.from({ length: LIMITS.wakeWaitersPerSandbox + 10 }, () => resume(world, id));
    const settled = await Promise.allSettled(resumes);
    const refused = settled.filter((one) => one.status === 'rejected');
    assert.equal(refused.length, 10);
    for (const { reason } of refused) assert.equal(reason.code, 'unavailable');
    assert.equal((await resume(world, id)).paused, undefined);
  });

  it('a request to a paused sandbox that does not wait any more leaves the wake to the others', async () => {
    await using world = await openPauses();
    const id = await world.createReady();
    await pause(world, id);
    const leaving = new AbortController();
    const left = resume(world, id, {}, { signal: leaving.signal });
    leaving.abort(new Error('the client left'));
    await assert.rejects(left, /the client left/);
    assert.equal((await resume(world, id)).paused, undefined);
  });
});

it('a log that is followed when its sandbox is paused ends with sandbox_paused, so that no client wakes it by trying again', async () => {
  await using world = await openPauses();
  const id = await world.createReady();
  const command = await world.runCommand(id, { command: ['bash', 'hang'], background: true });
  const followed = (async () => {
    for await (const _ of await world.follow(id, command.id));
  })();
  followed.catch(() => undefined);
  await pause(world, id);
  await assert.rejects(followed, { code: 'sandbox_paused' });
  assert.ok((await world.get(id)).paused);
});

describe('a change of a paused sandbox that is put off', () => {
  it('a change of a paused sandbox that is put off: a context is deleted at once and closed at the wake', async () => {
    await using world = await openPauses();
    const id = await world.createReady();
    const body = { language: 'python' };
    const { context } = await world.call(operations.createContext, { params: { sandboxId: id }, body });
    await pause(world, id);
    const params = { sandboxId: id, contextId: context.id };
    await world.call(operations.interruptContext, { params });
    await world.call(operations.deleteContext, { params });
    await assert.rejects(world.call(operations.getContext, { params }), { code: 'not_found' });
    assert.ok(isFrozen(world, id) && world.driver.agentOf(id).contexts.has(context.id as ContextId));
    await resume(world, id);
    assert.ok(!world.driver.agentOf(id).contexts.has(context.id as ContextId));
  });

  it('a change of a paused sandbox that is put off: SIGKILL ends a command at once, other signals at the wake', async () => {
    await using world = await openPauses();
    const id = await world.createReady();
    const start = () => world.runCommand(id, { command: ['bash', 'hang'], background: true });
    const [killed, asked, both, left] = [await start(), await start(), await start(), await start()];
    await pause(world, id);
    assert.equal((await killCommand(world, id, killed.id, 'SIGKILL')).status, 'killed');
    assert.equal((await killCommand(world, id, asked.id, 'SIGTERM')).status, 'running');
    await killCommand(world, id, both.id, 'SIGKILL');
    assert.equal((await killCommand(world, id, both.id, 'SIGTERM')).status, 'killed');
    assert.ok(isFrozen(world, id));
    assert.equal(world.agent(id).stateOf(killed.id)?.status, 'running');
    await resume(world, id);
    const states = [killed, asked, both, left].map((one) => world.agent(id).stateOf(one.id)?.signal);
    assert.deepEqual(states, ['SIGKILL', 'SIGTERM', 'SIGKILL', undefined]);
    await world.until(async () => (await world.getCommand(id, asked.id)).status === 'killed');
    assert.equal((await world.getCommand(id, left.id)).status, 'running');
  });

  it('a change of a paused sandbox that is put off survives the server', async () => {
    await using world = await openPauses();
    const id = await world.createReady();
    const command = await world.runCommand(id, { command: ['bash', 'hang'], background: true });
    await pause(world, id);
    await killCommand(world, id, command.id, 'SIGTERM');
    await world.crash();
    await resume(world, id);
    assert.equal(world.agent(id).stateOf(command.id)?.signal, 'SIGTERM');
  });
});

describe('a background command of a paused sandbox', () => {
  it('a background command of a paused sandbox stays as it is, and its end after the wake is noticed', async () => {
    await using world = await openPauses();
    const id = await world.createReady();
    const command = await world.runCommand(id, { command: ['bash', 'hang'], background: true });
    await pause(world, id);
    for (const looks of [world.getCommand(id, command.id), world.listCommands(id).then(([one]) => one)]) {
      assert.equal((await looks)?.status, 'running');
    }
    await world.crash();
    await resume(world, id);
    await killCommand(world, id, command.id, 'SIGTERM');
    await world.until(async () => (await world.getCommand(id, command.id)).signal === 'SIGTERM');
    await world.until(async () => (await world.get(id)).status === 'idle');
  });
});

describe('a request that its agent has not read when it is frozen', () => {
  /** Holds the runs at the agent until the instance is not frozen, as its socket does. */
  function holdRuns(world: World, id: SandboxId) {
    const [hasArrived, isPaused] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    const { connect } = world.driver;
    world.driver.connect = async (...parts) => {
      const agent = await connect.apply(world.driver, parts);
      return {
        ...agent,
        async *run(...run) {
          hasArrived.resolve();
          await isPaused.promise;
          await world.until(() => !isFrozen(world, id));
          yield* agent.run(...run);
        },
      };
    };
    return { hasArrived: hasArrived.promise, isPaused: isPaused.resolve };
  }

  for (const wake of ['requests', 'explicit'] as const) {
    it(`a request that its agent has not read when it is frozen wakes the sandbox as the policy says: ${wake}`, async () => {
      await using world = await openPauses();
      const id = await world.createReady({ pause: { wake } });
      const held = holdRuns(world, id);
      await world.crash();
      const run = world.run(id, 'print x');
      await held.hasArrived;
      assert.ok((await pause(world, id)).paused);
      held.isPaused();
      if (wake === 'explicit') {
        // Longer than the two looks that would wake it.
        await new Promise((resolve) => setTimeout(resolve, 1_500));
        assert.ok((await world.get(id)).paused);
        await resume(world, id);
      }
      assert.equal((await run).stdout, 'x\n');
      // The agent goes on before the record says so.
      await world.until(async () => (await world.get(id)).paused === undefined);
    });
  }
});

describe('a request that meets the closed gate of an agent', () => {
  /** Closes the gate as a server does that has not written its record yet, and opens it after a while. */
  async function closeGate(world: World, id: SandboxId) {
    const client = world.driver.agentOf(id).client();
    const { signal } = new AbortController();
    await client.pause('another', { force: false }, signal);
    return () => client.resume('another', { entropy: '', now: 0 }, signal);
  }

  const REQUESTS: Record<string, (world: World, id: SandboxId) => Promise<unknown>> = {
    'a run': async (world, id) => assert.equal((await world.run(id, 'print x')).stdout, 'x\n'),
    'a command': async (world, id) => {
      const command = await world.runCommand(id, { command: ['bash', 'print x'], background: true });
      assert.equal(command.failureReason, undefined);
    },
    'a new context': (world, id) =>
      world.call(operations.createContext, { params: { sandboxId: id }, body: { language: 'python' } }),
    'a list of files': (world, id) => world.call(operations.listFiles, { params: { sandboxId: id }, query: {} }),
    'a new directory': (world, id) =>
      world.call(operations.makeDirectory, { params: { sandboxId: id }, body: { path: 'made' } }),
  };
  for (const [title, send] of Object.entries(REQUESTS)) {
    it(`a request that meets the closed gate of an agent is sent again when it is open: ${title}`, async () => {
      await using world = await openPauses();
      const id = await world.createReady();
      const open = await closeGate(world, id);
      let isOver = false;
      const sent = send(world, id).finally(() => {
        isOver = true;
      });
      await new Promise((resolve) => setTimeout(resolve, 50));
      assert.ok(!isOver);
      await open();
      await sent;
    });
  }

  it('a request that meets the closed gate of an agent ends with its own time limit', async () => {
    await using world = await openPauses();
    const id = await world.createReady();
    await closeGate(world, id);
    assert.equal((await world.run(id, 'print x', { timeoutMs: 100 })).error?.name, 'TimeoutError');
  });

  it('a request that meets the closed gate of an agent is executed once, in 100 races with a pause', async () => {
    await using world = await openPauses();
    const id = await world.createReady();
    for (let round = 0; round < 100; round += 1) {
      const [paused, run] = await Promise.allSettled([pause(world, id), world.run(id, `print ${round}`)]);
      // A pause that meets a run in progress is refused.
      if (paused.status === 'rejected') assert.equal(paused.reason.code, 'conflict');
      assert.ok(run.status === 'fulfilled', String(run.status === 'rejected' && run.reason));
      assert.equal(run.value.stdout, `${round}\n`);
      assert.equal(run.value.error, undefined);
    }
    const [context] = world.driver.agentOf(id).contexts.values();
    assert.equal(context?.count, 100);
  });
});
