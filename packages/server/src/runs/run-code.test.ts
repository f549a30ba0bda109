import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { type CodeRunEvent, LIMITS, operations } from '@cloche/contract';
import { openSandboxes } from '../../testing/sandboxes.ts';

async function collect(events: AsyncIterable<CodeRunEvent>): Promise<CodeRunEvent[]> {
  const all: CodeRunEvent[] = [];
  for await (const event of events) all.push(event);
  return all;
}

describe('running code', () => {
  it('answers with output, results, the count and the real context', async () => {
    await using world = await openSandboxes();
    const id = await world.createReady();
    const run = await world.run(id, 'print hello\nwarn careful\nvalue 42');
    assert.equal(run.stdout, 'hello\n');
    assert.equal(run.stderr, 'careful\n');
    assert.deepEqual(run.outputs, [
      { kind: 'inline', format: 'text', mimeType: 'text/plain', value: '42', role: 'result', bundle: 0 },
    ]);
    assert.equal(run.executionCount, 1);
    assert.equal(typeof run.durationMs, 'number');
    assert.match(run.contextId, /^cctx_/);
    assert.equal((await world.run(id, 'print again')).contextId, run.contextId);
  });

  it('has an error and no duration when the code fails', async () => {
    await using world = await openSandboxes();
    const id = await world.createReady();
    const run = await world.run(id, 'print before\nfail ValueError no good');
    assert.deepEqual(run.error, { name: 'ValueError', message: 'no good', traceback: ['ValueError: no good'] });
    assert.equal(run.stdout, 'before\n');
    assert.ok(!('durationMs' in run));
  });

  it('waits for a sandbox that is still creating', async () => {
    await using world = await openSandboxes();
    const release = world.driver.holdLaunches();
    const { id } = await world.create();
    const run = world.run(id, 'print late');
    release();
    assert.equal((await run).stdout, 'late\n');
  });

  it('answers TimeoutError with a real context when the sandbox is not ready in time', async () => {
    await using world = await openSandboxes();
    const release = world.driver.holdLaunches();
    const { id } = await world.create();
    const run = await world.run(id, 'print never', { timeoutMs: 20 });
    assert.equal(run.error?.name, 'TimeoutError');
    assert.match(run.contextId, /^cctx_/);
    release();
    assert.equal((await world.waitFor(id, 'ready')).status, 'ready', 'a run that never began is no use of it');
  });

  it('keeps what was printed before the time limit, and the context keeps its variables', async () => {
    await using world = await openSandboxes();
    const id = await world.createReady();
    const run = await world.run(id, 'set x kept\nprint partial\nhang', { timeoutMs: 300 });
    assert.deepEqual(run.error, { name: 'TimeoutError', message: 'The run did not end within 300 ms.' });
    assert.equal(run.stdout, 'partial\n');
    assert.equal((await world.run(id, 'get x')).stdout, 'kept\n');
  });

  it('answers by itself when the agent says nothing at the time limit', async () => {
    await using world = await openSandboxes();
    const id = await world.createReady();
    const startedAt = performance.now();
    const run = await world.run(id, 'print partial\ndeaf', { timeoutMs: 300 });
    assert.equal(run.error?.name, 'TimeoutError');
    assert.equal(run.stdout, 'partial\n');
    assert.ok(performance.now() - startedAt < 5000);
  });

  it('counts the time limit from the arrival of the request', async () => {
    await using world = await openSandboxes();
    const id = await world.createReady();
    const run = await world.run(id, 'print x', { timeoutMs: 1000 }, { waitedMs: 5000 });
    assert.equal(run.error?.name, 'TimeoutError');
    assert.equal(run.stdout, '');
  });

  it('never gives a run what the one before it prints late', async () => {
    await using world = await openSandboxes();
    const id = await world.createReady();
    const [first, second] = await Promise.all([
      world.run(id, 'sleep 60\nprint first', { timeoutMs: 20 }),
      world.run(id, 'print second'),
    ]);
    assert.equal(first.error?.name, 'TimeoutError');
    assert.equal(second.stdout, 'second\n');
  });

  it('reports what was cut and a kernel that was replaced', async () => {
    await using world = await openSandboxes();
    const id = await world.createReady();
    assert.deepEqual((await world.run(id, 'truncate 77')).truncated, { stdout: 77 });
    assert.equal((await world.run(id, 'die')).error?.name, 'KernelDiedError');
    assert.equal((await world.run(id, 'print x')).stateLost, true);
    assert.ok(!('stateLost' in (await world.run(id, 'print x'))));
  });

  it('uses the time limit of a named context when the run gives none', async () => {
    await using world = await openSandboxes();
    const sandboxId = await world.createReady();
    const body = { language: 'python', timeoutMs: 60 };
    const { context } = await world.call(operations.createContext, { params: { sandboxId }, body });
    const run = await world.run(sandboxId, 'hang', { contextId: context.id });
    assert.match(run.error?.message ?? '', /60 ms/);
  });

  it('opens a context that the agent lost anew and says that its state is lost', async () => {
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
  it('answers CanceledError with what was printed when its sandbox is killed', async () => {
    await using world = await openSandboxes();
    const id = await world.createReady();
    const run = world.run(id, 'print begun\nhang');
    await world.waitFor(id, 'running');
    await world.kill(id);
    assert.equal((await run).error?.name, 'CanceledError');
  });

  it('answers CanceledError when its context is deleted, and the next run gets a new default context', async () => {
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

  it('answers CanceledError also when the agent does not end it', async () => {
    await using world = await openSandboxes();
    const sandboxId = await world.createReady();
    const run = world.run(sandboxId, 'deaf');
    await world.waitFor(sandboxId, 'running');
    await world.kill(sandboxId);
    assert.equal((await run).error?.name, 'CanceledError');
  });

  it('answers CanceledError when the sandbox is killed while the run waits for it', async () => {
    await using world = await openSandboxes();
    world.driver.holdLaunches();
    const { id } = await world.create();
    const run = world.run(id, 'print x');
    await world.kill(id);
    assert.equal((await run).error?.name, 'CanceledError');
  });

  it('answers sandbox_destroyed when the platform lost the instance, which ends the sandbox at once', async () => {
    await using world = await openSandboxes();
    const id = await world.createReady();
    await assert.rejects(world.run(id, 'vanish'), { code: 'sandbox_destroyed' });
    assert.equal((await world.get(id)).destroyedReason, 'platform_cleanup');
  });
});

describe('a run whose connection breaks', () => {
  it('answers unavailable and disturbs no other run of its sandbox', async () => {
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
  it('goes on as long as its agent answers', async () => {
    await using world = await openSandboxes();
    const id = await world.createReady();
    world.driver.isDown = true;
    assert.equal((await world.run(id, 'print x')).stdout, 'x\n');
  });

  it('answers unavailable when its agent does not answer either, and leaves the sandbox to the host', async () => {
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

describe('an agent that lies', () => {
  for (const [lie, code] of [
    ['an event of another run', 'impostor'],
    ['more output than it may', `overflow ${LIMITS.outputStreamBytes + 5000}`],
  ] as const) {
    it(`fails its sandbox when it sends ${lie}`, async () => {
      await using world = await openSandboxes();
      const id = await world.createReady();
      await assert.rejects(world.run(id, code), { code: 'sandbox_failed' });
      assert.equal((await world.get(id)).status, 'failed');
      assert.deepEqual(await world.driver.list(), []);
    });
  }
});

describe('streaming a run', () => {
  const call = (sandboxId: string, code: string, body: object = {}) => ({
    params: { sandboxId },
    body: { code, language: 'python', ...body },
  });

  it('yields what happens as it happens, and the result last', async () => {
    await using world = await openSandboxes();
    const id = await world.createReady();
    const events = await collect(await world.stream(call(id, 'print a\nvalue b\nfail Oops c')));
    assert.deepEqual(
      events.map(({ type }) => type),
      ['stdout', 'output', 'error', 'complete'],
    );
    const last = events.at(-1);
    assert.ok(last?.type === 'complete');
    assert.equal(last.data.error?.name, 'Oops');
    assert.equal(last.data.stdout, 'a\n');
  });

  it('tells an error of the service as an event too', async () => {
    await using world = await openSandboxes();
    const id = await world.createReady();
    const events = await collect(await world.stream(call(id, 'hang', { timeoutMs: 30 })));
    assert.deepEqual(
      events.map(({ type }) => type),
      ['error', 'complete'],
    );
  });

  it('cancels the run when its reader leaves', async () => {
    await using world = await openSandboxes();
    const id = await world.createReady();
    for await (const event of await world.stream(call(id, 'print a\nhang'))) {
      if (event.type === 'stdout') break;
    }
    assert.equal((await world.run(id, 'print next')).stdout, 'next\n');
    assert.equal((await world.get(id)).status, 'idle');
  });

  it('cancels the run when its client is gone', async () => {
    await using world = await openSandboxes();
    const id = await world.createReady();
    const client = new AbortController();
    const events = await world.stream({ ...call(id, 'print a\nhang'), signal: client.signal });
    await assert.rejects(
      async () => {
        for await (const event of events) if (event.type === 'stdout') client.abort();
      },
      { code: 'unavailable' },
    );
    assert.equal((await world.run(id, 'print next')).stdout, 'next\n');
  });

  it('rejects before it opens for a sandbox that takes no work', async () => {
    await using world = await openSandboxes();
    const id = await world.createReady();
    await world.kill(id);
    await assert.rejects(world.stream(call(id, 'print a')), { code: 'sandbox_destroyed' });
  });
});

describe('a run that is refused', () => {
  const refused = async (body: Record<string, unknown>, path: string) => {
    await using world = await openSandboxes();
    const sandboxId = await world.createReady();
    const creation = { params: { sandboxId }, body: { language: 'javascript', cwd: 'src' } };
    const { context } = await world.call(operations.createContext, creation);
    const named = 'contextId' in body ? { ...body, contextId: body.contextId ?? context.id } : body;
    await assert.rejects(
      world.run(sandboxId, 'print x', named),
      (error: Error & { code?: string; details?: unknown }) => {
        assert.equal(error.code, 'invalid_request');
        assert.equal((error.details as { issues: { path: string }[] }).issues[0]?.path, path);
        return true;
      },
    );
    const { data } = await world.call(operations.listContexts, { params: { sandboxId } });
    assert.equal(data.length, 1, 'no context was made for it');
  };

  it('names the code when it is over 256 KB of UTF-8', () => refused({ code: 'é'.repeat(131_073) }, 'body.code'));
  it('names the cwd when the default context has another', () => refused({ cwd: '/workspace/src' }, 'body.cwd'));
  it('names the language when the context has another', () => refused({ contextId: undefined }, 'body.language'));
  it('names the cwd when the named context has another', () =>
    refused({ contextId: undefined, language: 'javascript', cwd: '/workspace' }, 'body.cwd'));

  it('takes a cwd that spells the context’s differently, and 256 KB exactly', async () => {
    await using world = await openSandboxes();
    const sandboxId = await world.createReady();
    const creation = { params: { sandboxId }, body: { language: 'python', cwd: 'src' } };
    const { context } = await world.call(operations.createContext, creation);
    const code = `print ${'x'.repeat(262_144 - 6)}`;
    const run = await world.run(sandboxId, code, { contextId: context.id, cwd: '/workspace/./src/' });
    assert.equal(run.error, undefined);
  });

  it('answers not_found for contexts that are unknown, deleted or of another sandbox', async () => {
    await using world = await openSandboxes();
    const [one, two] = [await world.createReady(), await world.createReady()];
    const { contextId } = await world.run(two, 'print x');
    await assert.rejects(world.run(one, 'print x', { contextId }), { code: 'not_found' });
    await assert.rejects(world.run(one, 'print x', { contextId: 'cctx_none' }), { code: 'not_found' });
    await world.call(operations.deleteContext, { params: { sandboxId: two, contextId } });
    await assert.rejects(world.run(two, 'print x', { contextId }), { code: 'not_found' });
  });

  it('names the language that the template does not have, and leaves no context', async () => {
    await using world = await openSandboxes();
    const sandboxId = await world.createReady({ template: 'node' });
    await assert.rejects(world.run(sandboxId, 'print x'), { code: 'invalid_request', message: /body\.language/ });
    assert.deepEqual((await world.call(operations.listContexts, { params: { sandboxId } })).data, []);
  });
});
