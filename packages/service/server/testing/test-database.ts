/** The database of a test: SQLite in memory, or PostgreSQL where a server runs for the tests. */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { dataPaths } from '@cloche/layout';
import { sql } from 'kysely';
import { Client } from 'pg';
import type { Database } from '../src/platform/db/database.ts';
import type { DatabaseKind } from '../src/platform/db/database-kind.ts';
import { embeddedDatabase } from '../src/platform/db/embedded-database.ts';
import { migrate } from '../src/platform/db/migrate.ts';
import type { NodeSqliteDatabase } from '../src/platform/db/node-sqlite.ts';
import { openDatabase } from '../src/platform/db/open-database.ts';
import { OWNER, SOCKETS, TEMPLATE, urlOf } from './postgres/postgres-server.ts';

const sockets = process.env[SOCKETS];

/** Kind of the databases that tests get. `npm test -- postgres` runs them with PostgreSQL. */
export const DATABASE_KIND: DatabaseKind = sockets === undefined ? 'sqlite' : 'postgresql';

const names = new WeakMap<Database, string>();
/** Databases of this process that no test uses any more. */
const free: string[] = [];
let made = 0;

/** Opens a database with all tables and no rows. The caller destroys it. */
export async function openTestDatabase(kind = DATABASE_KIND): Promise<Database> {
  if (sockets === undefined || kind === 'sqlite') return openInMemory();
  const used = free.pop();
  const name = used ?? (await createDatabase(sockets));
  const db = await openDatabase(urlOf(sockets, name));
  if (used !== undefined) await empty(db);
  names.set(db, name);
  const destroy = db.destroy.bind(db);
  db.destroy = async () => {
    await destroy();
    free.push(name);
  };
  return db;
}

interface Statement {
  readonly text: string;
  readonly parameters: readonly unknown[];
}
/** The migrated first database of this process, from which the others are copied. */
let migrated: readonly Statement[] | undefined;

/** Opens a database in memory. Only the first of a process is migrated; copies take a fifth of the time. */
async function openInMemory(): Promise<Database> {
  const db = await openDatabase('sqlite::memory:');
  // Sound: every database of SQLite is embedded.
  const database = embeddedDatabase(db) as NodeSqliteDatabase;
  if (migrated === undefined) {
    await migrate(db);
    migrated = contentOf(database);
  } else {
    const statements = migrated;
    database.transact(() => {
      for (const { text, parameters } of statements) database.prepare(text).run(parameters);
    });
  }
  return db;
}

/** Returns the statements that create everything in the database, and its rows. */
function contentOf(database: NodeSqliteDatabase): Statement[] {
  const query = (text: string) => database.prepare(text, () => []).all([]) as Record<string, unknown>[];
  const made = query("select type, name, sql from sqlite_master where name not like 'sqlite%' order by rowid");
  const rows = made.flatMap(({ type, name }) => {
    if (type !== 'table') return [];
    return query(`select * from ${name}`).map((row) => {
      const parameters = Object.values(row);
      return { text: `insert into ${name} values (${parameters.map(() => '?')})`, parameters };
    });
  });
  return [...made.map(({ sql: text }) => ({ text: String(text), parameters: [] })), ...rows];
}

/**
 * Returns the database as another server has it: with connections of its own, or, as SQLite has one server, as it is.
 * The caller destroys it before `db`.
 */
export async function openBeside(db: Database): Promise<Database> {
  const name = names.get(db);
  return name === undefined || sockets === undefined ? db : openDatabase(urlOf(sockets, name));
}

/** Ends the connections of other servers for notifications, as a restart of PostgreSQL or a firewall does. */
export async function cutNotifications(db: Database): Promise<void> {
  await sql`
    select pg_terminate_backend(pid) from pg_stat_activity
    where datname = current_database() and application_name = 'cloche notifications'`.execute(db);
}

/**
 * Returns the settings with which a whole server uses a new database of the kind that tests get. SQLite's is a file of
 * `dataDir`, where the server finds all tables already.
 */
export async function testDatabaseSettings(dataDir?: string): Promise<Record<string, string>> {
  if (sockets !== undefined) return { CLOCHE_DATABASE_URL: urlOf(sockets, await createDatabase(sockets)) };
  if (dataDir !== undefined) await createFile(dataPaths(dataDir).sqliteFile);
  return {};
}

/** The migrated first file of this process, from which the others are copied. */
let migratedFile: Buffer | undefined;

/** Creates a database with all tables. Only the first of a process is migrated; copies take a tenth of the time. */
async function createFile(path: string): Promise<void> {
  if (migratedFile === undefined) {
    const db = await openDatabase(`sqlite:${path}`);
    await migrate(db);
    await db.destroy();
    migratedFile = readFileSync(path);
  } else {
    mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
    writeFileSync(path, migratedFile);
  }
}

/** Opens a database without tables, as an operator creates it. The caller destroys it. */
export async function openEmptyDatabase(): Promise<Database> {
  if (sockets === undefined) return openDatabase('sqlite::memory:');
  const name = await createDatabase(sockets, 'template0');
  const db = await openDatabase(urlOf(sockets, name));
  names.set(db, name);
  return db;
}

/** The server removes it when it ends itself. */
async function createDatabase(folder: string, template = TEMPLATE): Promise<string> {
  made += 1;
  const name = `test_${process.pid}_${made}`;
  const client = new Client({ connectionString: urlOf(folder, 'postgres') });
  await client.connect();
  // To copy the files takes a third of the time of the default, which writes them to the log.
  await client.query(`create database ${name} template ${template} owner ${OWNER} strategy file_copy`);
  await client.end();
  return name;
}

/**
 * Deletes all rows, of later tables first, as these refer to earlier ones. Takes a fifth of the time of a new database.
 */
async function empty(db: Database): Promise<void> {
  const { rows } = await sql<{ name: string }>`
    select relname as name from pg_class
    where relnamespace = current_schema()::regnamespace and relkind = 'r' and relname not like 'kysely%'
    order by oid desc`.execute(db);
  await sql.raw(rows.map(({ name }) => `delete from ${name}`).join(';')).execute(db);
}
