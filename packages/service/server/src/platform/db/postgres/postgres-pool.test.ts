import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { eventually } from '@cloche/testkit/eventually';
import { sql } from 'kysely';
import { DATABASE_KIND, openTestDatabase } from '../../../../testing/test-database.ts';
import type { Database } from '../database.ts';
import { postgresPool } from '../postgres-database.ts';
import { prepareQuery } from '../prepared-query.ts';
import { Transactions } from '../transactions.ts';

const skip = DATABASE_KIND === 'sqlite' && 'takes PostgreSQL: `npm test -- postgres`';

async function one<Value>(db: Database, expression: string): Promise<Value | undefined> {
  const { rows } = await sql<{ value: Value }>`select ${sql.raw(expression)} as value`.execute(db);
  return rows[0]?.value;
}

/** Closes every connection of the database but the caller's, as a restart of the server does. */
const endConnections = (db: Database) =>
  sql`select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()`.execute(
    db,
  );

/** Waits until no lost connection is left: the next query on one fails, and the pool then removes it. */
const answersAgain = (db: Database) =>
  eventually(
    () =>
      one(db, '1').then(
        () => true,
        (error: { code?: string }) => error.code !== 'unavailable' && Promise.reject(error),
      ),
    { because: 'lost connections are replaced' },
  );

describe('the connections to PostgreSQL', { skip }, () => {
  it('the connections to PostgreSQL give numbers for times, counts and sums', async () => {
    await using db = await openTestDatabase();
    const at = Date.parse('2026-01-01T00:00:00Z');
    await db.insertInto('orgs').values({ id: 'org_1', name: 'one', created_at: at }).execute();
    const { rows } = await sql<Record<string, unknown>>`
      select created_at as time, (select count(*) from orgs) as count, (select sum(created_at) from orgs) as sum
      from orgs`.execute(db);
    assert.deepEqual(rows, [{ time: at, count: 1, sum: at }]);
  });

  it('the connections to PostgreSQL refuse a number that JavaScript cannot hold, rather than round it', async () => {
    await using db = await openTestDatabase();
    assert.equal(await one(db, '9007199254740991::bigint'), Number.MAX_SAFE_INTEGER);
    await assert.rejects(one(db, '9007199254740993::bigint'), /9007199254740993 of the database exceeds/);
    assert.equal(await one(db, '1::bigint'), 1);
  });

  it('the connections to PostgreSQL are replaced when the server ends them, while idle and in use', async () => {
    await using db = await openTestDatabase();
    const slow = Array.from({ length: 3 }, () => one(db, 'pg_sleep(30)'));
    const failures = Promise.allSettled(slow);
    const sleeping = "select count(*) from pg_stat_activity where query like '%pg_sleep(30)%' and state = 'active'";
    // Its own query has the text, too.
    await eventually(async () => (await one(db, `(${sleeping})`)) === 4, { because: 'all queries are under way' });
    await endConnections(db);
    for (const result of await failures) {
      assert.equal(result.status, 'rejected');
      assert.equal(result.status === 'rejected' && result.reason.code, 'unavailable');
    }
    await answersAgain(db);
  });

  it('serve the next transaction after one whose connection was lost', async () => {
    await using db = await openTestDatabase();
    const transactions = new Transactions(db);
    const begun = Promise.withResolvers<void>();
    const lost = Promise.withResolvers<void>();
    const cut = transactions.run(async (tx) => {
      await tx.db.insertInto('orgs').values({ id: 'org_1', name: 'one', created_at: 1 }).execute();
      begun.resolve();
      await lost.promise;
      await tx.db.insertInto('orgs').values({ id: 'org_2', name: 'two', created_at: 1 }).execute();
    });
    cut.catch(() => undefined);
    await begun.promise;
    await endConnections(db);
    lost.resolve();
    await assert.rejects(cut, { code: 'unavailable' });
    await answersAgain(db);
    await transactions.run((tx) =>
      tx.db.insertInto('orgs').values({ id: 'org_1', name: 'one', created_at: 1 }).execute(),
    );
    assert.equal(await one(db, '(select count(*) from orgs)'), 1);
  });

  it('the connections to PostgreSQL run prepared queries as prepared statements, in transactions too', async () => {
    await using db = await openTestDatabase();
    const find = prepareQuery(db, ({ id }: { id: string }) =>
      db.selectFrom('orgs').select('name').where('id', '=', id),
    );
    const prepared = await new Transactions(db).run(async (tx) => {
      for (const id of ['org_1', 'org_2']) await find({ id }, tx);
      const { rows } = await sql<{ statement: string }>`select statement from pg_prepared_statements`.execute(tx.db);
      return rows.map(({ statement }) => statement);
    });
    assert.deepEqual(prepared, ['select "name" from "orgs" where "id" = $1']);
  });

  it('prepare a statement again after a migration has changed its tables', async () => {
    await using db = await openTestDatabase();
    await sql`create table changing (id integer)`.execute(db);
    await using _ = { [Symbol.asyncDispose]: async () => void (await sql`drop table changing`.execute(db)) };
    const all = prepareQuery(db, (_: Record<string, never>) =>
      db.selectFrom(sql<object>`changing`.as('t')).selectAll(),
    );
    await all({});
    await sql`alter table changing add column name text`.execute(db);
    await sql`insert into changing values (1, 'new')`.execute(db);
    assert.deepEqual((await all({})).rows, [{ id: 1, name: 'new' }]);
    await sql`alter table changing add column more text`.execute(db);
    await assert.rejects(
      new Transactions(db).run((tx) => all({}, tx)),
      { code: 'unavailable' },
    );
    assert.deepEqual((await new Transactions(db).run((tx) => all({}, tx))).rows, [{ id: 1, name: 'new', more: null }]);
  });

  it('the connections to PostgreSQL refuse a query beside the transaction of its caller, which could wait for itself', async () => {
    await using db = await openTestDatabase();
    await assert.rejects(
      new Transactions(db).run(() => one(db, '1')),
      /pass the transaction to the query/,
    );
  });

  it('the connections to PostgreSQL have a time limit for each statement, which migrations do not have', async () => {
    await using db = await openTestDatabase();
    const limit = () => one(db, "current_setting('statement_timeout')");
    assert.equal(await limit(), '30s');
    assert.equal(await postgresPool(db)?.withoutLimits(limit), '0');
    assert.equal(await limit(), '30s');
  });

  it('replace NUL, which texts of PostgreSQL cannot contain, and find nothing by it', async () => {
    await using db = await openTestDatabase();
    const insert = prepareQuery(db, ({ id, name }: { id: string; name: string }) =>
      db.insertInto('orgs').values({ id, name, created_at: 1 }),
    );
    await insert({ id: 'a\0b', name: JSON.stringify('a\0b') });
    const [org] = await db.selectFrom('orgs').select(['id', 'name']).execute();
    assert.deepEqual(org, { id: 'a\u{fffd}b', name: '"a\\u0000b"' });
    assert.deepEqual(await db.selectFrom('orgs').select('id').where('id', '=', 'ab\0').execute(), []);
  });

  it('the connections to PostgreSQL find nothing in an empty list', async () => {
    await using db = await openTestDatabase();
    assert.deepEqual(await db.selectFrom('orgs').select('id').where('id', 'in', []).execute(), []);
  });

  it('the connections to PostgreSQL read what was committed before each statement, whatever the server has as its default', async () => {
    await using db = await openTestDatabase();
    assert.equal(await one(db, "current_setting('transaction_isolation')"), 'read committed');
    const level = new Transactions(db).run(({ db: own }) => one(own, "current_setting('transaction_isolation')"));
    assert.equal(await level, 'read committed');
  });
});
