import { sql } from 'kysely';
import { Client } from 'pg';
import type { Database } from '../database.ts';
import { usePool } from '../postgres-database.ts';
import { describeFailure, describeShortage, type Target } from './postgres-errors.ts';
import { kyselyOf, PostgresPool } from './postgres-pool.ts';

/** Oldest version that the tests run with, as in `server_version_num`. */
const OLDEST_VERSION = 150_000;

interface Examined {
  readonly version: number;
  readonly version_text: string;
  readonly encoding: string;
  readonly schema: string | null;
  readonly may_create: boolean | null;
  readonly is_standby: boolean;
}

/**
 * Opens `postgres://user:password@host:port/database`. The caller migrates the database before use and destroys it
 * afterwards.
 *
 * @throws Error that names the remedy if the server does not answer, is too old, or gives too few rights.
 */
export async function openPostgres(url: string): Promise<Database> {
  const pool = new PostgresPool(url);
  const db = kyselyOf(pool);
  const target = targetOf(url);
  try {
    const problem = await problemOf(db, target);
    if (problem !== undefined) throw new Error(problem);
  } catch (error) {
    await db.destroy();
    throw error;
  }
  usePool(db, pool);
  return db;
}

/** `unavailable` wraps the failure of the connection. */
const causeOf = (error: unknown) => (error instanceof Error && error.cause !== undefined ? error.cause : error);

async function problemOf(db: Database, target: Target): Promise<string | undefined> {
  const { server, user, database } = target;
  const { rows } = await sql<Examined>`
    select current_setting('server_version_num')::integer as version, current_setting('server_version') as version_text,
      current_setting('server_encoding') as encoding, current_schema() as schema,
      has_schema_privilege(current_schema(), 'create') as may_create, pg_is_in_recovery() as is_standby`
    .execute(db)
    .catch((error: unknown) => {
      const cause = causeOf(error);
      throw new Error(describeFailure(cause, target), { cause });
    });
  const [found] = rows;
  if (!found) return `PostgreSQL at ${server} does not say its version`;
  if (found.version < OLDEST_VERSION)
    return `PostgreSQL at ${server} is ${found.version_text}; Cloche needs ${OLDEST_VERSION / 10_000} or newer`;
  if (found.is_standby) return `PostgreSQL at ${server} is a standby, which cannot be written; name the primary server`;
  if (found.encoding !== 'UTF8')
    return `the database "${database}" at ${server} has the encoding ${found.encoding}; create it with the encoding UTF8`;
  if (!found.may_create)
    return (
      `the user "${user}" may not create tables in the database "${database}" at ${server}; make the user the owner of ` +
      `the database: alter database "${database}" owner to "${user}"`
    );
  return poolerProblemOf(db, target);
}

/**
 * Detects a pooler between this process and PostgreSQL that does not keep sessions, and returns the remedy; undefined
 * if there is none. With such a pooler, prepared statements, time limits and `listen` belong to a session that the next
 * statement of the same connection may not get.
 */
async function poolerProblemOf(db: Database, target: Target): Promise<string | undefined> {
  return db.connection().execute(async (one) => {
    const before = await backendOf(one);
    const other = await db.connection().execute(backendOf).catch(causeOf);
    if (other instanceof Error) return describeShortage(other, target);
    if (before !== other && before === (await backendOf(one))) return undefined;
    return (
      `the pooler at ${target.server} gives the session of one connection to another; set its pool mode to session ` +
      '(pool_mode = session in PgBouncer), or name PostgreSQL itself in CLOCHE_DATABASE_URL'
    );
  });
}

/** Returns the process id of the PostgreSQL session that executes a statement of this connection. */
async function backendOf(connection: Database): Promise<number | undefined> {
  const { rows } = await sql<{ pid: number }>`select pg_backend_pid() as pid`.execute(connection);
  return rows[0]?.pid;
}

/**
 * Returns the server, user and database that the URL or the variables of `pg` (PGUSER, PGDATABASE) name, without the
 * password.
 */
function targetOf(url: string): Target {
  const { host, port, user = '', database = '' } = new Client({ connectionString: url });
  return { server: host.startsWith('/') ? host : `${host}:${port}`, user, database };
}
