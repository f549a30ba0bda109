import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { sql } from 'kysely';
import { Client } from 'pg';
import { SOCKETS, urlOf } from '../../../testing/postgres/postgres-server.ts';
import { DATABASE_KIND, openTestDatabase } from '../../../testing/test-database.ts';
import type { Database } from './database.ts';
import { migrate } from './migrate.ts';
import { openDatabase } from './open-database.ts';

/** Opens a migrated database in which a newer version has executed a further migration. */
async function openMigratedFurther(name: string): Promise<Database> {
  const db = await openTestDatabase();
  await sql`insert into kysely_migration (name, timestamp) values (${name}, '2100-01-01T00:00:00.000Z')`.execute(db);
  const destroy = db.destroy.bind(db);
  db.destroy = async () => {
    await sql`delete from kysely_migration where name like '999-%'`.execute(db);
    await destroy();
  };
  return db;
}

describe('a database that a newer version has migrated', () => {
  it('a database that a newer version has migrated is used if its further migrations only expand it', async () => {
    await using db = await openMigratedFurther('999-later-expand');
    await migrate(db);
    assert.deepEqual(await db.selectFrom('orgs').selectAll().execute(), []);
  });

  it('a database that a newer version has migrated is refused otherwise, with the reason', async () => {
    await using db = await openMigratedFurther('999-later');
    await assert.rejects(
      migrate(db),
      /^Error: a newer version of Cloche has migrated the database \(999-later\); start that/,
    );
  });

  it('a database that a newer version has migrated is refused if a migration of this version is missing in it', async () => {
    await using db = await openMigratedFurther('999-later-expand');
    const known = await sql<{ name: string }>`select name from kysely_migration order by name`.execute(db);
    const name = known.rows.at(-2)?.name;
    const timestamp = '2026-01-01T00:00:00.000Z';
    await sql`delete from kysely_migration where name = ${name}`.execute(db);
    await assert.rejects(migrate(db), /the database could not be migrated/);
    await sql`insert into kysely_migration (name, timestamp) values (${name}, ${timestamp})`.execute(db);
  });
});

describe('a database of a test', () => {
  it('a database of a test has the tables, indices and rows that migrations make, also when it is a copy of another', async () => {
    await using migrated = await openDatabase('sqlite::memory:');
    await migrate(migrated);
    await using first = await openTestDatabase('sqlite');
    await using copy = await openTestDatabase('sqlite');
    const made = await contentOf(migrated);
    assert.ok(made.length > 100);
    for (const db of [first, copy]) assert.deepEqual(await contentOf(db), made);
  });
});

/** Returns what an SQLite database has been made of, with its rows but for the times of migrations. */
async function contentOf(db: Database): Promise<unknown[]> {
  const { rows: made } = await sql<{ type: string; name: string }>`select * from sqlite_master order by name`.execute(
    db,
  );
  const content: unknown[] = made.map((each) => ({ ...each, rootpage: undefined }));
  for (const { name } of made.filter(({ type }) => type === 'table')) {
    const { rows } = await sql<object>`select * from ${sql.table(name)}`.execute(db);
    content.push(...rows.map((row) => ({ ...row, timestamp: undefined })));
  }
  return content;
}

const skip = DATABASE_KIND === 'sqlite' && 'takes PostgreSQL: `npm test -- postgres`';
describe('an empty database', { skip }, () => {
  it('an empty database is migrated once by servers that start at the same time', async () => {
    const sockets = process.env[SOCKETS] ?? '';
    const main = new Client({ connectionString: urlOf(sockets, 'postgres') });
    await main.connect();
    await main.query('create database empty template template0');
    const servers = await Promise.all([1, 2, 3].map(() => openDatabase(urlOf(sockets, 'empty'))));
    try {
      await Promise.all(servers.map(migrate));
      for (const db of servers) assert.deepEqual(await db.selectFrom('secrets').selectAll().execute(), []);
    } finally {
      await Promise.all(servers.map((db) => db.destroy()));
      await main.query('drop database empty');
      await main.end();
    }
  });
});
