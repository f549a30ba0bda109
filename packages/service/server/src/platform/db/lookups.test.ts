import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { sql } from 'kysely';
import { openTestDatabase } from '../../../testing/test-database.ts';
import type { Database } from './database.ts';
import { Lookups } from './lookups.ts';
import { prepareQuery } from './prepared-query.ts';

async function openNames() {
  const db = await openTestDatabase('sqlite');
  await db.insertInto('orgs').values({ id: 'org_1', name: 'first', created_at: 1 }).execute();
  const lookups = new Lookups<string>(db, ['orgs']);
  let reads = 0;
  const find = (id: string) =>
    lookups.find(id, async () => {
      reads++;
      return (await db.selectFrom('orgs').select('name').where('id', '=', id).executeTakeFirst())?.name;
    });
  return { db, find, reads: () => reads, [Symbol.asyncDispose]: () => db.destroy() };
}

function rename(db: Database, name: string) {
  return db.updateTable('orgs').set({ name }).where('id', '=', 'org_1').execute();
}

describe('a look-up', () => {
  it('a look-up is made once, and again after something was written', async () => {
    await using names = await openNames();
    assert.deepEqual([await names.find('org_1'), await names.find('org_1')], ['first', 'first']);
    assert.equal(names.reads(), 1);
    await rename(names.db, 'second');
    assert.equal(await names.find('org_1'), 'second');
    await names.db.deleteFrom('orgs').execute();
    assert.equal(await names.find('org_1'), undefined);
    await names.db.insertInto('orgs').values({ id: 'org_1', name: 'third', created_at: 1 }).execute();
    assert.equal(await names.find('org_1'), 'third');
  });

  it('a look-up of a missing value is made once too, and again after something was written', async () => {
    await using names = await openNames();
    assert.deepEqual([await names.find('org_2'), await names.find('org_2')], [undefined, undefined]);
    assert.equal(names.reads(), 1);
    await names.db.insertInto('orgs').values({ id: 'org_2', name: 'second', created_at: 1 }).execute();
    assert.equal(await names.find('org_2'), 'second');
  });

  it('a look-up is not made again when tables that it does not read are written', async () => {
    await using names = await openNames();
    await names.find('org_1');
    await names.db.deleteFrom('idempotency_records').execute();
    await names.db.updateTable('server_leases').set({ lease_until: 2 }).execute();
    await names.db.transaction().execute((trx) => trx.deleteFrom('artifacts').execute());
    await names.find('org_1');
    assert.equal(names.reads(), 1);
  });

  it('a look-up is made again after raw SQL and after a prepared query that write', async () => {
    await using names = await openNames();
    await names.find('org_1');
    await sql`update orgs set name = 'raw'`.execute(names.db);
    assert.equal(await names.find('org_1'), 'raw');
    const set = prepareQuery(names.db, ({ name }: { name: string }) => names.db.updateTable('orgs').set({ name }));
    await set({ name: 'prepared' });
    assert.equal(await names.find('org_1'), 'prepared');
    await set({ name: 'again' });
    assert.equal(await names.find('org_1'), 'again');
  });

  it('a look-up never finds what a transaction wrote and undid', async () => {
    await using names = await openNames();
    await names.find('org_1');
    const written = Promise.withResolvers<void>();
    const undo = Promise.withResolvers<void>();
    const transaction = names.db.transaction().execute(async (trx) => {
      await trx.updateTable('orgs').set({ name: 'undone' }).execute();
      written.resolve();
      await undo.promise;
      throw new Error('undone');
    });
    transaction.catch(() => undefined);
    await written.promise;
    const during = names.find('org_1');
    undo.resolve();
    await assert.rejects(transaction, /undone/);
    assert.deepEqual([await during, await names.find('org_1')], ['first', 'first']);
  });

  it('a look-up that was under way while something was written is made again', async () => {
    await using names = await openNames();
    const reading = names.find('org_1');
    const writing = rename(names.db, 'second');
    await Promise.all([reading, writing]);
    assert.equal(await names.find('org_1'), 'second');
  });
});
