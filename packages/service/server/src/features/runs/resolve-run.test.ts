import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { operations } from '@cloche/contract';
import { openSandboxes } from '../../../testing/sandboxes.ts';

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

  it('a run that is refused names the code when it is over 256 KB of UTF-8', () =>
    refused({ code: 'é'.repeat(131_073) }, 'body.code'));
  it('a run that is refused names the cwd when the default context has another', () =>
    refused({ cwd: '/workspace/src' }, 'body.cwd'));
  it('a run that is refused names the language when the context has another', () =>
    refused({ contextId: undefined }, 'body.language'));
  it('a run that is refused names the cwd when the named context has another', () =>
    refused({ contextId: undefined, language: 'javascript', cwd: '/workspace' }, 'body.cwd'));

  it('a run that is refused takes a cwd that spells the context’s differently, and 256 KB exactly', async () => {
    await using world = await openSandboxes();
    const sandboxId = await world.createReady();
    const creation = { params: { sandboxId }, body: { language: 'python', cwd: 'src' } };
    const { context } = await world.call(operations.createContext, creation);
    const code = `print ${'x'.repeat(262_144 - 6)}`;
    const run = await world.run(sandboxId, code, { contextId: context.id, cwd: '/workspace/./src/' });
    assert.equal(run.error, undefined);
  });

  it('a run that is refused answers not_found for contexts that are unknown, deleted or of another sandbox', async () => {
    await using world = await openSandboxes();
    const [one, two] = [await world.createReady(), await world.createReady()];
    const { contextId } = await world.run(two, 'print x');
    await assert.rejects(world.run(one, 'print x', { contextId }), { code: 'not_found' });
    await assert.rejects(world.run(one, 'print x', { contextId: 'cctx_none' }), { code: 'not_found' });
    await world.call(operations.deleteContext, { params: { sandboxId: two, contextId } });
    await assert.rejects(world.run(two, 'print x', { contextId }), { code: 'not_found' });
  });

  it('a run that is refused names the language that the template does not have, and leaves no context', async () => {
    await using world = await openSandboxes();
    const sandboxId = await world.createReady({ template: 'node' });
    await assert.rejects(world.run(sandboxId, 'print x'), { code: 'invalid_request', message: /body\.language/ });
    assert.deepEqual((await world.call(operations.listContexts, { params: { sandboxId } })).data, []);
  });
});
