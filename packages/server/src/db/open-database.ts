import { mkdirSync } from 'node:fs';
import { dirname, isAbsolute } from 'node:path';
import { Kysely, type Transaction } from 'kysely';
import type { Database, Tables } from './database.ts';
import { executeDirectly } from './embedded-database.ts';
import { EmbeddedDialect } from './embedded-dialect.ts';
import { NodeSqliteDatabase } from './node-sqlite.ts';

/**
 * Opens `sqlite:/absolute/path` or `sqlite::memory:`, and creates the file and its folder. The caller migrates the
 * database before use and destroys it afterwards.
 *
 * @throws Error for any other kind of URL, with the form to write instead.
 */
export function openDatabase(url: string): Database {
  const file = url.startsWith('sqlite:') ? url.slice('sqlite:'.length) : undefined;
  if (file === undefined)
    throw new Error(`"${schemeOf(url)}" databases are not supported; use sqlite:/path/to/file.db`);
  if (file !== ':memory:') {
    if (!isAbsolute(file)) throw new Error(`"${url}" needs an absolute path, as in sqlite:/var/lib/cloche/cloche.db`);
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
