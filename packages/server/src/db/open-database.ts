import { mkdirSync } from 'node:fs';
import { dirname, isAbsolute } from 'node:path';
import { Kysely } from 'kysely';
import type { Database } from './database.ts';
import { EmbeddedDialect } from './embedded-dialect.ts';
import { NodeSqliteDatabase } from './node-sqlite.ts';
import { executeDirectly } from './prepared-query.ts';

/**
 * Opens `sqlite:/absolute/path` or `sqlite::memory:`; the file and its folder are made. The caller migrates it before
 * use and destroys it after.
 *
 * @throws Error with what to write instead, for a URL of another kind.
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
  const db: Database = new Kysely({ dialect: new EmbeddedDialect(database) });
  executeDirectly(db, database);
  return db;
}

/** The URL itself may hold a password. */
function schemeOf(url: string): string {
  return url.slice(0, url.indexOf(':') + 1) || 'unnamed';
}
