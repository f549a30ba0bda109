import { mkdirSync } from 'node:fs';
import { dirname, isAbsolute } from 'node:path';
import { Kysely, type Transaction } from 'kysely';
import type { Database, Tables } from './database.ts';
import { executeDirectly } from './embedded-database.ts';
import { EmbeddedDialect } from './embedded-dialect.ts';
import { NodeSqliteDatabase } from './node-sqlite.ts';

/**
 * Opens `sqlite:/absolute/path`, whose file and folder it creates, `sqlite::memory:` or `postgres://…`. The caller
 * migrates the database before use and destroys it afterwards.
 *
 * @throws Error that names the remedy, for any other kind of URL too.
 */
export async function openDatabase(url: string): Promise<Database> {
  if (url.startsWith('sqlite:')) return openSqlite(url.slice('sqlite:'.length));
  if (/^postgres(ql)?:/.test(url)) {
    // Loaded here, so that a server with SQLite starts without it.
    const { openPostgres } = await import('./postgres/open-postgres.ts');
    return openPostgres(url);
  }
  const message = `"${schemeOf(url)}" databases are not supported; use sqlite:/path/to/file.db or postgres://user@host/database`;
  throw new Error(message);
}

function openSqlite(file: string): Database {
  if (file !== ':memory:') {
    if (!isAbsolute(file))
      throw new Error(`"sqlite:${file}" needs an absolute path, as in sqlite:/var/lib/cloche/cloche.db`);
    mkdirSync(dirname(file), { recursive: true, mode: 0o700 });
  }
  const database = new NodeSqliteDatabase(file);
  const db: Database = new Kysely({ dialect: new EmbeddedDialect(database, 'separate') });
  // Sound: its driver executes queries only in an open transaction, and the type has no way to begin another.
  const joined = new Kysely({ dialect: new EmbeddedDialect(database, 'joined') }) as Transaction<Tables>;
  executeDirectly(db, { database, joined });
  return db;
}

/** Returns only the scheme: the full URL may hold a password. */
function schemeOf(url: string): string {
  return url.slice(0, url.indexOf(':') + 1) || 'unnamed';
}
