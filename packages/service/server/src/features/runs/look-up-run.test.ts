import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { type Language, operations, type SandboxId } from '@cloche/contract';
import { eventually } from '@cloche/testkit/eventually';
import { repositoryOf } from '../../../testing/sandbox-repository.ts';
import { openSandboxes, type SandboxesWorld } from '../../../testing/sandboxes.ts';
import { credentialOf, OTHER_PROJECT } from '../../../testing/seeded-organizations.ts';
import type { Credential } from '../../platform/keys/credential.ts';
import { SqlContextRepository } from '../contexts/context-repository.ts';
import { SandboxAccess } from '../sandbox-records/sandbox-access.ts';
import { LookUpRun } from './look-up-run.ts';

interface Asked {
  readonly language?: Language;
  readonly contextId?: string;
  readonly credential?: Credential;
}

/** Reads with one statement, and with one for the sandbox and one for the context; the results are equal. */
async function lookUp(world: SandboxesWorld, sandboxId: SandboxId, asked: Asked = {}) {
  const { language = 'python', contextId, credential = credentialOf() } = asked;
  const one = new LookUpRun(world.db, world.settings.pauseRetentionMs).lookUp(credential, {
    params: { sandboxId },
    body: { code: '', language, ...(contextId !== undefined && { contextId }) },
  });
  const contexts = new SqlContextRepository(world.db);
  const two = {
    sandbox: new SandboxAccess(repositoryOf(world)).getLive(credential, sandboxId),
    context: contextId === undefined ? contexts.findDefault(sandboxId, language) : contexts.find(sandboxId, contextId),
  };
  const [sandbox, context, ...expected] = await Promise.allSettled([
    one.sandbox,
    one.context,
    two.sandbox,
    two.context,
  ]);
  assert.deepEqual([sandbox, context], expected);
  return {
    sandboxId: sandbox.status === 'fulfilled' ? sandbox.value.id : (sandbox.reason.code as string),
    context: context.status === 'fulfilled' ? context.value : assert.fail(String(context.reason)),
  };
}

describe('the look-up of a run', () => {
  it('the look-up of a run finds the sandbox, and its default context of the language if there is one', async () => {
    await using world = await openSandboxes();
    const id = await world.createReady();
    assert.deepEqual(await lookUp(world, id), { sandboxId: id, context: undefined });
    const { contextId } = await world.run(id, 'print x');
    const isUsed = async () => (await repositoryOf(world).find(id))?.used === true;
    await eventually(isUsed, { because: 'nothing is written to the record while it is compared' });
    const found = await lookUp(world, id);
    assert.deepEqual([found.sandboxId, found.context?.id, found.context?.isDefault], [id, contextId, true]);
    assert.equal((await lookUp(world, id, { language: 'javascript' })).context, undefined);
    await world.call(operations.deleteContext, { params: { sandboxId: id, contextId } });
    assert.equal((await lookUp(world, id)).context, undefined);
  });

  it('the look-up of a run finds a named context of the sandbox alone, deleted ones too', async () => {
    await using world = await openSandboxes();
    const [id, other] = [await world.createReady(), await world.createReady()];
    const creation = { params: { sandboxId: id }, body: { language: 'python', cwd: 'src', timeoutMs: 5_000 } };
    const { context } = await world.call(operations.createContext, creation);
    const found = await lookUp(world, id, { contextId: context.id });
    assert.deepEqual(
      [found.context?.id, found.context?.cwd, found.context?.timeoutMs],
      [context.id, '/workspace/src', 5_000],
    );
    assert.deepEqual(await lookUp(world, other, { contextId: context.id }), { sandboxId: other, context: undefined });
    assert.equal((await lookUp(world, id, { contextId: 'cctx_none' })).context, undefined);
    await world.call(operations.deleteContext, { params: { sandboxId: id, contextId: context.id } });
    assert.notEqual((await lookUp(world, id, { contextId: context.id })).context?.deletedAt, undefined);
  });

  it('the look-up of a run refuses sandboxes that are unknown, of others, or ended', async () => {
    await using world = await openSandboxes();
    const id = await world.createReady();
    assert.equal((await lookUp(world, 'sbx_none' as SandboxId)).sandboxId, 'not_found');
    const foreign = credentialOf('org_2' as never);
    assert.equal((await lookUp(world, id, { credential: foreign })).sandboxId, 'not_found');
    const elsewhere = credentialOf(undefined, [OTHER_PROJECT]);
    assert.equal((await lookUp(world, id, { credential: elsewhere })).sandboxId, 'forbidden');
    await world.kill(id);
    assert.equal((await lookUp(world, id)).sandboxId, 'sandbox_destroyed');
  });
});
