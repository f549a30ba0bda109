import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import {
  answerKernelMessage,
  type CodeContext,
  type CodeRun,
  type ContextId,
  type OrgId,
  operations,
  type SandboxId,
} from '@cloche/contract';
import { openSandboxes, type SandboxesWorld } from '../../../testing/sandboxes.ts';
import { credentialOf } from '../../../testing/seeded-organizations.ts';
import type { TestRequest } from '../../../testing/test-request.ts';
import type { AppError } from '../../platform/base/app-error.ts';

async function createContext(
  world: SandboxesWorld,
  sandboxId: SandboxId,
  body: Record<string, unknown> = {},
  call: TestRequest = {},
): Promise<CodeContext> {
  const request = { ...call, params: { sandboxId }, body: { language: 'python', ...body } };
  return (await world.call(operations.createContext, request)).context;
}

async function list(world: SandboxesWorld, sandboxId: SandboxId): Promise<ContextId[]> {
  return (await world.call(operations.listContexts, { params: { sandboxId } })).data.map(({ id }) => id);
}

const act = async (
  world: SandboxesWorld,
  operation: 'getContext' | 'deleteContext' | 'interruptContext' | 'restartContext',
  sandboxId: SandboxId,
  contextId: ContextId,
  call: TestRequest = {},
) => (await world.call(operations[operation], { ...call, params: { sandboxId, contextId } })).context;

describe('creating a context', () => {
  it('creating a context answers when it is ready, with what it is', async () => {
    await using world = await openSandboxes();
    const sandboxId = await world.createReady();
    const context = await createContext(world, sandboxId, { language: 'typescript', cwd: 'src/../lib' });
    assert.deepEqual(context, {
      id: context.id,
      sandboxId,
      language: 'typescript',
      cwd: '/workspace/lib',
      isDefault: false,
      createdAt: context.createdAt,
    });
    assert.ok(world.driver.agentOf(sandboxId).contexts.has(context.id));
    assert.deepEqual(await act(world, 'getContext', sandboxId, context.id), context);
  });

  it('creating a context waits for a sandbox that is still creating', async () => {
    await using world = await openSandboxes();
    const release = world.driver.holdLaunches();
    const { id } = await world.create();
    const context = createContext(world, id);
    release();
    assert.equal((await context).sandboxId, id);
  });

  it('creating a context makes none when the time is up, of the sandbox or of the kernel', async () => {
    await using world = await openSandboxes();
    const release = world.driver.holdLaunches();
    const { id } = await world.create();
    await assert.rejects(createContext(world, id, { timeoutMs: 20 }), { code: 'unavailable' });
    release();
    await world.waitFor(id, 'ready');
    world.driver.agentOf(id).openGate = new Promise(() => undefined);
    await assert.rejects(createContext(world, id, { timeoutMs: 20 }), {
      code: 'unavailable',
      message: /timeoutMs/,
      isClientsBound: true,
    });
    assert.deepEqual(await list(world, id), []);
  });

  it('creating a context names the cwd that leads out of the workspace, and makes none', async () => {
    await using world = await openSandboxes();
    const id = await world.createReady();
    for (const cwd of ['/etc', '../etc']) {
      await assert.rejects(createContext(world, id, { cwd }), (error: AppError) => {
        assert.equal(error.code, 'invalid_request');
        assert.equal((error.details as { issues: { path: string }[] }).issues[0]?.path, 'body.cwd');
        return true;
      });
    }
    assert.deepEqual(await list(world, id), []);
  });

  it('creating a context names a language that the template does not have', async () => {
    await using world = await openSandboxes();
    const id = await world.createReady({ template: 'node' });
    await assert.rejects(createContext(world, id), { code: 'invalid_request', message: /body\.language.*javascript/ });
  });

  it('creating a context gives one context to all attempts with one idempotency record', async () => {
    await using world = await openSandboxes();
    const id = await world.createReady();
    const attempt = () => createContext(world, id, {}, { idempotency: { recordId: 'idem_1' } });
    const ids = new Set((await Promise.all([attempt(), attempt(), attempt()])).map((context) => context.id));
    assert.equal(ids.size, 1);
    await world.crash();
    assert.ok(ids.has((await attempt()).id));
    assert.equal((await list(world, id)).length, 1);
  });

  it('creating a context needs a live sandbox', async () => {
    await using world = await openSandboxes();
    const id = await world.createReady();
    await world.kill(id);
    await assert.rejects(createContext(world, id), { code: 'sandbox_destroyed' });
  });
});

describe('the default context', () => {
  it('the default context is one for each sandbox and language, however many runs ask at once', async () => {
    await using world = await openSandboxes();
    const [one, two] = [await world.createReady(), await world.createReady()];
    const runs = await Promise.all(Array.from({ length: 30 }, () => world.run(one, 'print x')));
    assert.equal(new Set(runs.map(({ contextId }) => contextId)).size, 1);
    assert.equal(world.driver.agentOf(one).opened, 1);
    assert.deepEqual(
      runs
        .map(({ executionCount }) => executionCount)
        .sort((a, b) => a - b)
        .at(-1),
      30,
    );
    // Contexts that were created in the same millisecond have no order.
    world.clock.advance(1);
    const other = await world.run(one, 'print x', { language: 'javascript' });
    assert.notEqual(other.contextId, runs[0]?.contextId);
    assert.notEqual((await world.run(two, 'print x')).contextId, runs[0]?.contextId);
    const { data } = await world.call(operations.listContexts, { params: { sandboxId: one } });
    assert.deepEqual(
      data.map(({ isDefault, language }) => ({ isDefault, language })),
      [
        { isDefault: true, language: 'python' },
        { isDefault: true, language: 'javascript' },
      ],
    );
  });
});

describe('the life of a context', () => {
  it('the life of a context ends with its deletion, which can be repeated and ends its execution', async () => {
    await using world = await openSandboxes();
    const id = await world.createReady();
    const context = await createContext(world, id);
    const run = world.run(id, 'print begun\nhang', { contextId: context.id });
    await world.waitFor(id, 'running');
    const deleted = await act(world, 'deleteContext', id, context.id);
    assert.ok(deleted.deletedAt);
    assert.equal((await run).error?.name, 'CanceledError');
    world.clock.advance(1000);
    assert.deepEqual(await act(world, 'deleteContext', id, context.id), deleted);
    await assert.rejects(act(world, 'getContext', id, context.id), { code: 'not_found' });
    assert.deepEqual(await list(world, id), []);
    assert.ok(!world.driver.agentOf(id).contexts.has(context.id));
    await world.kill(id);
    assert.deepEqual(await act(world, 'deleteContext', id, context.id), deleted);
  });

  it('the life of a context ends by deletion through another server, with its execution, within a second, and is not opened again', async () => {
    await using a = await openSandboxes();
    await using b = await a.beside('srv_2');
    const id = await a.createReady();
    const context = await createContext(a, id);
    const run = b.run(id, 'print begun\nhang', { contextId: context.id });
    await b.waitFor(id, 'running');
    const deletedAt = performance.now();
    await act(a, 'deleteContext', id, context.id);
    assert.equal((await run).error?.name, 'CanceledError');
    const elapsedMs = performance.now() - deletedAt;
    assert.ok(elapsedMs < 1_000, `the run ended ${elapsedMs.toFixed(0)} ms after the deletion`);
    await assert.rejects(b.run(id, 'print x', { contextId: context.id }), { code: 'not_found' });
    assert.ok(!a.driver.agentOf(id).contexts.has(context.id));
  });

  it('the life of a context ends at once by deletion also when a deaf agent goes on', async () => {
    await using world = await openSandboxes();
    const id = await world.createReady();
    const context = await createContext(world, id);
    const run = world.run(id, 'deaf', { contextId: context.id });
    await world.waitFor(id, 'running');
    await act(world, 'deleteContext', id, context.id);
    assert.equal((await run).error?.name, 'CanceledError');
  });

  it('the life of a context ends with its sandbox', async () => {
    await using world = await openSandboxes();
    const id = await world.createReady();
    const context = await createContext(world, id);
    await world.kill(id);
    assert.deepEqual(await list(world, id), []);
    for (const operation of ['getContext', 'deleteContext'] as const) {
      await assert.rejects(act(world, operation, id, context.id), { code: 'not_found' });
    }
    for (const operation of ['interruptContext', 'restartContext'] as const) {
      await assert.rejects(act(world, operation, id, context.id), { code: 'sandbox_destroyed' });
    }
  });

  it('the life of a context is not found by another organization, another sandbox or another name', async () => {
    await using world = await openSandboxes();
    const [one, two] = [await world.createReady(), await world.createReady()];
    const context = await createContext(world, one);
    const foreign = { credential: credentialOf('org_2' as OrgId) };
    for (const operation of ['getContext', 'deleteContext', 'interruptContext', 'restartContext'] as const) {
      await assert.rejects(act(world, operation, one, context.id, foreign), { code: 'not_found' });
      await assert.rejects(act(world, operation, two, context.id), { code: 'not_found' });
      await assert.rejects(act(world, operation, one, 'cctx_none' as ContextId), { code: 'not_found' });
      await assert.rejects(act(world, operation, 'sbx_none' as SandboxId, context.id), { code: 'not_found' });
    }
  });

  it('the life of a context keeps its variables when it is interrupted and loses them when it is restarted', async () => {
    await using world = await openSandboxes();
    const id = await world.createReady();
    const { contextId } = await world.run(id, 'set x 1');
    for (const [operation, after] of [
      ['interruptContext', '1\n'],
      ['restartContext', ''],
    ] as const) {
      const run = world.run(id, 'hang');
      await world.waitFor(id, 'running');
      await act(world, operation, id, contextId);
      assert.equal((await run).error?.name, 'CanceledError');
      assert.equal((await world.run(id, 'get x')).stdout, after);
    }
  });

  it('the life of a context has nothing to interrupt before its kernel is there', async () => {
    await using world = await openSandboxes();
    const release = world.driver.holdLaunches();
    const { id } = await world.create();
    const run = world.run(id, 'print x');
    await world.until(async () => (await list(world, id)).length === 1);
    const [contextId] = await list(world, id);
    assert.ok(contextId);
    assert.equal((await act(world, 'interruptContext', id, contextId)).id, contextId);
    release();
    assert.equal((await run).stdout, 'x\n');
  });

  it('the life of a context is not changed by a server that was paused until another one had answered the request', async () => {
    await using world = await openSandboxes();
    await using late = await world.beside('srv_2');
    const sandboxId = await world.createReady();
    const { contextId } = await world.run(sandboxId, 'set x 1');
    const request = { params: { sandboxId, contextId }, body: { message: 'an answer' } };
    for (const operation of [operations.interruptContext, operations.restartContext, answerKernelMessage]) {
      let later: Promise<CodeRun> | undefined;
      const announce = async () => {
        late.isFenced = true;
        await world.call(operation, request);
        await world.run(sandboxId, 'set x later');
        later = world.run(sandboxId, 'hang');
        await world.waitFor(sandboxId, 'running');
      };
      await assert.rejects(late.call(operation, { ...request, audit: { announce } }), { code: 'unavailable' });
      assert.equal((await world.get(sandboxId)).status, 'running');
      await act(world, 'interruptContext', sandboxId, contextId);
      await later;
      assert.equal((await world.run(sandboxId, 'get x')).stdout, 'later\n');
      late.isFenced = false;
    }
  });

  it('the life of a context outlives the server with its variables', async () => {
    await using world = await openSandboxes();
    const id = await world.createReady();
    const { contextId } = await world.run(id, 'set x kept');
    await world.crash();
    const run = await world.run(id, 'get x');
    assert.equal(run.stdout, 'kept\n');
    assert.equal(run.contextId, contextId);
    assert.ok(!('stateLost' in run));
  });
});
