import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { sql } from 'kysely';
import { fillTables } from '../../../../testing/filled-tables.ts';
import { DATABASE_KIND, openTestDatabase } from '../../../../testing/test-database.ts';
import type { Database } from '../database.ts';
import { copyDatabase } from './copy-database.ts';
import { listTables, type Table } from './table-list.ts';

const ROWS = 450;

let source: Database;
let tables: Table[];
before(async () => {
  source = await openTestDatabase('sqlite');
  tables = await listTables(source);
  await fillTables(source, tables, ROWS);
});
after(() => source.destroy());

/** Returns all rows as texts, in an order of their own. */
async function contents(db: Database, { name, columns }: Table): Promise<string[]> {
  const { rows } = await sql<Record<string, unknown>>`select * from ${sql.table(name)}`.execute(db);
  return rows.map((row) => JSON.stringify(columns.map((column) => row[column]))).sort();
}

async function assertNoRows(db: Database): Promise<void> {
  for (const table of tables) assert.deepEqual(await contents(db, table), [], table.name);
}

const ignore = () => undefined;
const skip = DATABASE_KIND === 'sqlite' && 'copies to PostgreSQL: `npm test -- postgres`';

describe('a copy of a database', { skip }, () => {
  it('a copy of a database has each row of each table, and says how many', async () => {
    await using target = await openTestDatabase();
    const report = await copyDatabase(source, target, ignore);
    assert.deepEqual([report.copied, report.rows], [true, ROWS * tables.length]);
    for (const table of tables) {
      const wanted = await contents(source, table);
      assert.equal(wanted.length, ROWS);
      assert.deepEqual(await contents(target, table), wanted, table.name);
    }
    assert.deepEqual(
      report.tables.map(({ name, rows }) => [name, rows]).sort(),
      tables.map(({ name }) => [name, ROWS]).sort(),
    );
  });

  it('a copy of a database goes on counting after the largest number', async () => {
    await using target = await openTestDatabase();
    await copyDatabase(source, target, ignore);
    const { rows } = await sql<{ name: string; column: string }>`
      select table_name as name, column_name as column from information_schema.columns
      where table_schema = current_schema() and is_identity = 'YES'`.execute(target);
    assert.ok(rows.length > 0);
    for (const { name, column } of rows) {
      const largest = sql<{ next: number; largest: number }>`
        select nextval(pg_get_serial_sequence(${name}, ${column})) as next, max(${sql.ref(column)}) as largest
        from ${sql.table(name)}`;
      const [found] = (await largest.execute(target)).rows;
      assert.equal(found?.next, Number(found?.largest) + 1);
    }
  });

  it('a copy of a database is compared, and not made again, if the target has it already', async () => {
    await using target = await openTestDatabase();
    const first = await copyDatabase(source, target, ignore);
    const again = await copyDatabase(source, target, ignore);
    assert.deepEqual(again, { ...first, copied: false });
  });

  it('a copy of a database is refused if the target has other rows, which stay', async () => {
    await using target = await openTestDatabase();
    await copyDatabase(source, target, ignore);
    await sql`update orgs set name = name || '!' where id = (select min(id) from orgs)`.execute(target);
    await assert.rejects(copyDatabase(source, target, ignore), /other rows in the table orgs; name a database without/);
    const { rows } = await sql<{ count: number }>`select count(*) as count from orgs where name like '%!'`.execute(
      target,
    );
    assert.equal(rows[0]?.count, 1);
  });

  it('a copy of a database is refused while a server uses the target', async () => {
    await using target = await openTestDatabase();
    const lease = { id: 'srv_1', lease_until: Date.now() + 25_000, schema_version: null };
    await target.insertInto('server_leases').values(lease).execute();
    await assert.rejects(copyDatabase(source, target, ignore), /a server uses the target, .* after \d+ seconds$/);
    await target.updateTable('server_leases').set({ lease_until: 1 }).execute();
    assert.equal((await copyDatabase(source, target, ignore)).copied, true);
  });

  it('a copy of a database leaves no row if it breaks off in the middle, and can be made again', async () => {
    await using target = await openTestDatabase();
    const breakOff = ({ rows, total }: { rows: number; total: number }) => {
      if (rows > total / 2) throw new Error('broken off');
    };
    await assert.rejects(copyDatabase(source, target, breakOff), /broken off/);
    await assertNoRows(target);
    assert.equal((await copyDatabase(source, target, ignore)).copied, true);
  });

  it('a copy of a database is not made if the target stores a value differently', async () => {
    await using target = await openTestDatabase();
    await sql`create function spoil() returns trigger language plpgsql as
      $$ begin if new.id like '%_7' then new.created_at = new.created_at + 1; end if; return new; end $$`.execute(
      target,
    );
    await sql`create trigger spoil before insert on orgs for each row execute function spoil()`.execute(target);
    try {
      await assert.rejects(copyDatabase(source, target, ignore), /the table orgs was not copied exactly; nothing was/);
      await assertNoRows(target);
    } finally {
      await sql`drop function spoil() cascade`.execute(target);
    }
  });

  it('a copy of a database has another character for NUL, which PostgreSQL cannot store', async () => {
    await using own = await openTestDatabase('sqlite');
    await own.insertInto('orgs').values({ id: 'org_1', name: 'a\0b', created_at: 1 }).execute();
    await using target = await openTestDatabase();
    await copyDatabase(own, target, ignore);
    assert.deepEqual(await target.selectFrom('orgs').select('name').execute(), [{ name: 'a\u{fffd}b' }]);
  });
});
