import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { openTestDatabase } from '../../../testing/test-database.ts';
import { prepareQuery } from './prepared-query.ts';

async function openOrgs() {
  const db = await openTestDatabase();
  const insert = prepareQuery(db, ({ id }: { id: string }) =>
    db.insertInto('orgs').values({ id, name: id, created_at: 1 }),
  );
  const rename = prepareQuery(db, ({ id, name }: { id: string; name: string }) =>
    db.updateTable('orgs').set({ name }).where('id', '=', id),
  );
  const find = prepareQuery(db, ({ id }: { id: string }) => db.selectFrom('orgs').select('name').where('id', '=', id));
  return { db, insert, rename, find, [Symbol.asyncDispose]: () => db.destroy() };
}

describe('a prepared query', () => {
  it('binds each parameter where it was named, every time anew', async () => {
    await using orgs = await openOrgs();
    for (const id of ['org_1', 'org_2']) await orgs.insert({ id });
    assert.equal((await orgs.rename({ name: 'new', id: 'org_2' })).changed, 1n);
    assert.equal((await orgs.rename({ name: 'new', id: 'org_3' })).changed, 0n);
    assert.equal((await orgs.find({ id: 'org_1' })).rows[0]?.name, 'org_1');
    assert.equal((await orgs.find({ id: 'org_2' })).rows[0]?.name, 'new');
    assert.deepEqual((await orgs.find({ id: 'org_3' })).rows, []);
  });

  it('a prepared query that comes during a transaction waits for its end, and is not undone with it', async () => {
    await using orgs = await openOrgs();
    const begun = Promise.withResolvers<void>();
    const undo = Promise.withResolvers<void>();
    const transaction = orgs.db.transaction().execute(async (trx) => {
      await trx.insertInto('orgs').values({ id: 'org_undone', name: 'x', created_at: 1 }).execute();
      begun.resolve();
      await undo.promise;
      throw new Error('undone');
    });
    transaction.catch(() => undefined);
    await begun.promise;
    const inserted = orgs.insert({ id: 'org_kept' });
    const seen = orgs.find({ id: 'org_undone' });
    undo.resolve();
    await assert.rejects(transaction, /undone/);
    await inserted;
    assert.deepEqual((await seen).rows, []);
    assert.equal((await orgs.find({ id: 'org_kept' })).rows.length, 1);
  });
});
