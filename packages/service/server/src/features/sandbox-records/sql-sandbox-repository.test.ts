import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { CompiledQuery, createQueryId, type PluginTransformQueryArgs, type RootOperationNode } from 'kysely';
import { repositoryOf } from '../../../testing/sandbox-repository.ts';
import { openSandboxes } from '../../../testing/sandboxes.ts';
import { DATABASE_KIND } from '../../../testing/test-database.ts';
import { UNAUDITED } from '../../platform/call/call.ts';

async function openReady() {
  const world = await openSandboxes();
  const sandboxes = repositoryOf(world);
  const record = await sandboxes.find(await world.createReady());
  assert.ok(record);
  return { world, sandboxes, record };
}

describe('the records of sandboxes', () => {
  it('the records of sandboxes give a change to one of two that decided on the same state', async () => {
    const { world, sandboxes, record } = await openReady();
    await using _ = world;
    const [fail, end] = await Promise.all([
      sandboxes.transition(record, 'fail', { failureReason: 'x' }),
      sandboxes.transition(record, 'end', { endingReason: 'user_killed' }),
    ]);
    assert.equal([fail, end].filter(Boolean).length, 1);
  });

  it('the records of sandboxes refuse a change that names another generation', async () => {
    const { world, sandboxes, record } = await openReady();
    await using _ = world;
    assert.equal(await sandboxes.transition({ ...record, generation: 2 }, 'fail'), undefined);
  });

  it('the records of sandboxes refuse a change that the table does not have', async () => {
    const { world, sandboxes, record } = await openReady();
    await using _ = world;
    for (const transition of ['launch', 'open', 'relaunch', 'destroy'] as const) {
      assert.equal(await sandboxes.transition(record, transition), undefined);
    }
    assert.equal((await sandboxes.find(record.id))?.status, 'ready');
  });

  it('the records of sandboxes let no end that was decided before an extension undo it', async () => {
    const { world, sandboxes, record } = await openReady();
    await using _ = world;
    assert.ok(await sandboxes.setTtl(UNAUDITED, record, { ttlMs: 5000, expiresAt: record.expiresAt + 5000 }));
    assert.equal(await sandboxes.transition(record, 'end', { endingReason: 'ttl_expired' }), undefined);
    assert.equal(await sandboxes.setTtl(UNAUDITED, record, { ttlMs: 1, expiresAt: record.expiresAt + 1 }), undefined);
  });

  const skip = DATABASE_KIND === 'postgresql' && 'reads the plans of SQLite';
  it('the records of sandboxes are found without a look at those that have ended', { skip }, async () => {
    const { world, record } = await openReady();
    await using _ = world;
    const asked: RootOperationNode[] = [];
    const transformQuery = ({ node }: PluginTransformQueryArgs) => {
      asked.push(node);
      return node;
    };
    const watched = world.db.withPlugin({ transformQuery, transformResult: async ({ result }) => result });
    const sandboxes = repositoryOf(world, watched);
    asked.length = 0;
    await sandboxes.listExpired(0);
    await sandboxes.nextExpiry(0);
    await sandboxes.listWithIdleTimeout();
    await sandboxes.listThat('holdsInstance');
    await sandboxes.list({ orgId: record.orgId, projectIds: undefined, status: 'ready' }, { limit: 10 });
    assert.equal(asked.length, 5);
    for (const node of asked) {
      const { sql, parameters } = world.db.getExecutor().compileQuery(node, createQueryId());
      const { rows } = await world.db.executeQuery(CompiledQuery.raw(`explain query plan ${sql}`, [...parameters]));
      const plan = JSON.stringify(rows);
      assert.match(
        plan,
        /SEARCH sandboxes USING (COVERING )?INDEX \S+ \((status|org_id=\? AND status)=\?/,
        `${sql}: ${plan}`,
      );
    }
  });
});
