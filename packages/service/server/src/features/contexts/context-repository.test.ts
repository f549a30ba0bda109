import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { CompiledQuery, createQueryId, type PluginTransformQueryArgs, type RootOperationNode } from 'kysely';
import { openTestDatabase } from '../../../testing/test-database.ts';
import { SqlContextRepository } from './context-repository.ts';

describe('the records of contexts', () => {
  it('the records of contexts are found for a run without a look at the other contexts of its sandbox', async () => {
    await using db = await openTestDatabase('sqlite');
    const prepared: RootOperationNode[] = [];
    const transformQuery = ({ node }: PluginTransformQueryArgs) => {
      prepared.push(node);
      return node;
    };
    new SqlContextRepository(db.withPlugin({ transformQuery, transformResult: async ({ result }) => result }));
    const plans = [];
    for (const node of prepared) {
      const { sql, parameters } = db.getExecutor().compileQuery(node, createQueryId());
      const bound = parameters.map(() => 'any');
      const { rows } = await db.executeQuery(CompiledQuery.raw(`explain query plan ${sql}`, bound));
      plans.push(JSON.stringify(rows));
    }
    assert.equal(plans.length, 2);
    assert.match(plans[0] ?? '', /INDEX sqlite_autoindex_code_contexts_1 \(id=\?\)/);
    assert.match(plans[1] ?? '', /INDEX code_contexts_one_default \(sandbox_id=\? AND language=\?\)/);
  });
});
