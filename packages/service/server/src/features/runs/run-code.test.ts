import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { LIMITS, operations } from '@cloche/contract';
import { eventually } from '@cloche/testkit/eventually';
import { openSandboxes } from '../../../testing/sandboxes.ts';

describe('running code', () => {
  it('running code answers with output, results, the count and the real context', async () => {
    await using world = await openSandboxes();
    const id = await world.createReady();
    const run = await world.run(id, 'print hello\nwarn careful\nvalue 42');
    assert.equal(run.stdout, 'hello\n');
    assert.equal(run.stderr, 'careful\n');
    assert.deepEqual(run.outputs, [
      { kind: 'inline', format: 'text', mimeType: 'text/plain', value: '42', role: 'result', bundle: 0 },
    ]);
    assert.equal(run.executionCount, 1);
    assert.ok(!('id' in run));
    assert.equal(typeof run.durationMs, 'number');
    assert.match(run.contextId, /^cctx_/);
    assert.equal((await world.run(id, 'print again')).contextId, run.contextId);
  });

  it('running code has an error and no duration when the code fails', async () => {
    await using world = await openSandboxes();
    const id = await world.createReady();
    const run = await world.run(id, 'print before\nfail ValueError no good');
    assert.deepEqual(run.error, { name: 'ValueError', message: 'no good', traceback: ['ValueError: no good'] });
    assert.equal(run.stdout, 'before\n');
    assert.ok(!('durationMs' in run));
  });

  it('running code waits for a sandbox that is still creating', async () => {
    await using world = await openSandboxes();
    const release = world.driver.holdLaunches();
    const { id } = await world.create();
    const run = world.run(id, 'print late');
    release();
    assert.equal((await run).stdout, 'late\n');
  });

  it('running code answers TimeoutError with a real context when the sandbox is not ready in time', async () => {
    await using world = await openSandboxes();
    const release = world.driver.holdLaunches();
    const { id } = await world.create();
    const run = await world.run(id, 'print never', { timeoutMs: 20 });
    assert.equal(run.error?.name, 'TimeoutError');
    assert.match(run.contextId, /^cctx_/);
    release();
    assert.equal((await world.waitFor(id, 'ready')).status, 'ready', 'a run that never began is no use of it');
  });

  it('running code keeps what was printed before the time limit, and the context keeps its variables', async () => {
    await using world = await openSandboxes();
    const id = await world.createReady();
    const run = await world.run(id, 'set x kept\nprint partial\nhang', { timeoutMs: 300 });
    assert.deepEqual(run.error, { name: 'TimeoutError', message: 'The run did not end within 300 ms.' });
    assert.equal(run.stdout, 'partial\n');
    assert.equal((await world.run(id, 'get x')).stdout, 'kept\n');
  });

  it('running code answers by itself when the agent says nothing at the time limit', async () => {
    await using world = await openSandboxes();
    const id = await world.createReady();
    const startedAt = performance.now();
    const run = await world.run(id, 'print partial\ndeaf', { timeoutMs: 300 });
    assert.equal(run.error?.name, 'TimeoutError');
    assert.equal(run.stdout, 'partial\n');
    assert.ok(performance.now() - startedAt < 5000);
  });

  it('running code counts the time limit from the arrival of the request', async () => {
    await using world = await openSandboxes();
    const id = await world.createReady();
    const run = await world.run(id, 'print x', { timeoutMs: 1000 }, { waitedMs: 5000 });
    assert.equal(run.error?.name, 'TimeoutError');
    assert.equal(run.stdout, '');
  });

  it('running code never gives a run what the one before it prints late', async () => {
    await using world = await openSandboxes();
    const id = await world.createReady();
    const [first, second] = await Promise.all([
      world.run(id, 'sleep 60\nprint first', { timeoutMs: 20 }),
      world.run(id, 'print second'),
    ]);
    assert.equal(first.error?.name, 'TimeoutError');
    assert.equal(second.stdout, 'second\n');
  });

  it('running code reports what was cut and a kernel that was replaced', async () => {
    await using world = await openSandboxes();
    const id = await world.createReady();
    assert.deepEqual((await world.run(id, 'truncate 77')).truncated, { stdout: 77 });
    assert.equal((await world.run(id, 'die')).error?.name, 'KernelDiedError');
    assert.equal((await world.run(id, 'print x')).stateLost, true);
    assert.ok(!('stateLost' in (await world.run(id, 'print x'))));
  });

  it('running code uses the time limit of a named context when the run gives none', async () => {
    await using world = await openSandboxes();
    const sandboxId = await world.createReady();
    const body = { language: 'python', timeoutMs: 60 };
    const { context } = await world.call(operations.createContext, { params: { sandboxId }, body });
    const run = await world.run(sandboxId, 'hang', { contextId: context.id });
    assert.match(run.error?.message ?? '', /60 ms/);
  });

  it('running code opens a context that the agent lost again and says that its state is lost', async () => {
    await using world = await openSandboxes();
    const id = await world.createReady();
    const { contextId } = await world.run(id, 'set x 1');
    world.driver.agentOf(id).contexts.delete(contextId);
    const run = await world.run(id, 'print back');
    assert.equal(run.stdout, 'back\n');
    assert.equal(run.stateLost, true);
  });
});

describe('a run whose context or sandbox ends', () => {
  it('a run whose context or sandbox ends answers CanceledError with what was printed when its sandbox is killed', async () => {
    await using world = await openSandboxes();
    const id = await world.createReady();
    const run = world.run(id, 'print begun\nhang');
    await world.waitFor(id, 'running');
    await world.kill(id);
    assert.equal((await run).error?.name, 'CanceledError');
  });

  it('a run whose context or sandbox ends answers CanceledError when its context is deleted, and the next run gets a new default context', async () => {
    await using world = await openSandboxes();
    const sandboxId = await world.createReady();
    const { contextId } = await world.run(sandboxId, 'set x 1');
    const run = world.run(sandboxId, 'hang');
    await world.waitFor(sandboxId, 'running');
    await world.call(operations.deleteContext, { params: { sandboxId, contextId } });
    assert.equal((await run).error?.name, 'CanceledError');
    const next = await world.run(sandboxId, 'get x');
    assert.notEqual(next.contextId, contextId);
    assert.equal(next.error?.name, 'NameError');
  });

  it('a run whose context or sandbox ends answers CanceledError also when the agent does not end it', async () => {
    await using world = await openSandboxes();
    const sandboxId = await world.createReady();
    const run = world.run(sandboxId, 'deaf');
    await world.waitFor(sandboxId, 'running');
    await world.kill(sandboxId);
    assert.equal((await run).error?.name, 'CanceledError');
  });

  it('a run whose context or sandbox ends answers CanceledError when its context was deleted through another server, and does not open it again', async () => {
    await using world = await openSandboxes();
    const id = await world.createReady();
    const { contextId } = await world.run(id, 'print x');
    const agent = world.driver.agentOf(id);
    await agent.client().closeContext(contextId, AbortSignal.timeout(60_000));
    assert.equal((await world.run(id, 'print late')).error?.name, 'CanceledError');
    assert.equal(agent.contexts.size, 0);
  });

  it('a run whose context or sandbox ends ends when a later claim of its request runs, and is refused if that came first', async () => {
    await using world = await openSandboxes();
    const id = await world.createReady();
    const claimed = (claim: number, code: string) =>
      world.run(id, code, {}, { idempotency: { recordId: 'idem_1', claim } });
    const first = claimed(1, 'hang');
    const agent = world.driver.agentOf(id);
    await world.until(() => [...agent.contexts.values()].some(({ runs }) => runs.size > 0));
    assert.equal((await claimed(2, 'print second')).stdout, 'second\n');
    assert.equal((await first).error?.name, 'CanceledError');
    await assert.rejects(claimed(1, 'print late'), { code: 'unavailable' });
  });

  it('a run whose context or sandbox ends answers CanceledError when the sandbox is killed while the run waits for it', async () => {
    await using world = await openSandboxes();
    world.driver.holdLaunches();
    const { id } = await world.create();
    const run = world.run(id, 'print x');
    await world.kill(id);
    assert.equal((await run).error?.name, 'CanceledError');
  });

  it('a run whose context or sandbox ends answers sandbox_destroyed when the platform lost the instance, which ends the sandbox at once', async () => {
    await using world = await openSandboxes();
    const id = await world.createReady();
    await assert.rejects(world.run(id, 'vanish'), { code: 'sandbox_destroyed' });
    const isGone = async () => (await world.get(id)).destroyedReason === 'platform_cleanup';
    await eventually(isGone, { because: 'the answer does not wait for the record' });
  });
});

describe('a run whose connection breaks', () => {
  it('a run whose connection breaks answers unavailable and disturbs no other run of its sandbox', async () => {
    await using world = await openSandboxes();
    const id = await world.createReady();
    const other = world.run(id, 'sleep 50\nprint undisturbed', { language: 'javascript' });
    await world.waitFor(id, 'running');
    await assert.rejects(world.run(id, 'cut'), { code: 'unavailable' });
    assert.equal((await other).stdout, 'undisturbed\n');
    assert.equal((await world.get(id)).status, 'idle');
  });
});

describe('a run whose host does not answer', () => {
  it('a run whose host does not answer goes on as long as its agent answers', async () => {
    await using world = await openSandboxes();
    const id = await world.createReady();
    world.driver.isDown = true;
    assert.equal((await world.run(id, 'print x')).stdout, 'x\n');
  });

  it('a run whose host does not answer answers unavailable when its agent does not answer either, and leaves the sandbox to the host', async () => {
    await using world = await openSandboxes();
    const id = await world.createReady();
    world.driver.isDown = true;
    await assert.rejects(world.run(id, 'vanish'), { code: 'unavailable' });
    await assert.rejects(world.run(id, 'print x'), { code: 'unavailable' });
    assert.equal((await world.get(id)).status, 'idle');
    world.driver.isDown = false;
    await assert.rejects(world.run(id, 'print x'), { code: 'sandbox_destroyed' });
  });
});

describe('a run whose agent is gone while its place does not answer', () => {
  it('a run whose agent is gone while its place does not answer leaves the sandbox alone', async () => {
    await using world = await openSandboxes();
    const id = await world.createReady();
    world.driver.unreachable.add(id);
    await assert.rejects(world.run(id, 'vanish'), { code: 'unavailable' });
    assert.equal((await world.get(id)).status, 'idle');
  });
});

describe('an agent that lies', () => {
  for (const [lie, code] of [
    ['an event of another run', 'impostor'],
    ['more output than it may', `overflow ${LIMITS.outputStreamBytes + 5000}`],
  ] as const) {
    it(`an agent that lies fails its sandbox when it sends ${lie}`, async () => {
      await using world = await openSandboxes();
      const id = await world.createReady();
      await assert.rejects(world.run(id, code), { code: 'sandbox_failed' });
      assert.equal((await world.get(id)).status, 'failed');
      assert.deepEqual(world.driver.instances(), []);
    });
  }
});
