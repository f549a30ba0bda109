/** Migrates or copies databases for `cloche`, running as the user that owns the server's folder. */
import { existsSync, statSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { type CopyReport, type DatabaseMessage, DatabaseTask, type MigrationReport } from '@cloche/protocol';
import { Value } from 'typebox/value';
import { copyDatabase } from './platform/db/copy/copy-database.ts';
import { kindOf } from './platform/db/database-kind.ts';
import { migrate, SCHEMA_VERSION } from './platform/db/migrate.ts';
import { openDatabase } from './platform/db/open-database.ts';
import './platform/db/postgres/open-postgres.ts';
import { lockSqliteFile } from './platform/db/sqlite-file-lock.ts';

// `pg` loads this module late, when the process may run as a user that cannot read the program's files.
createRequire(import.meta.resolve('pg'))('pgpass');

const PROGRESS_MS = 100;

try {
  const task = Value.Parse(DatabaseTask, JSON.parse(await text(process.stdin)));
  becomeOwnerOf(task.serverDir);
  say({ done: task.task === 'migrate' ? await migrateDatabase(task.databaseUrl) : await copy(task) });
} catch (error) {
  say({ failed: describe(error) });
  process.exitCode = 1;
}

function say(message: DatabaseMessage): void {
  process.stdout.write(`${JSON.stringify(message)}\n`);
}

/** Changes this process's user, because the server could not open SQLite files that root creates. */
function becomeOwnerOf(folder: string): void {
  if (process.getuid?.() !== 0 || !existsSync(folder)) return;
  const { uid, gid } = statSync(folder);
  if (uid === 0) return;
  process.setgroups?.([]);
  process.setgid?.(gid);
  process.setuid?.(uid);
}

async function migrateDatabase(url: string): Promise<MigrationReport> {
  lock(url);
  const db = await openDatabase(url);
  try {
    return { database: kindOf(db), schema: SCHEMA_VERSION, ...(await migrate(db)) };
  } finally {
    await db.destroy();
  }
}

async function copy({ from, to, serverDir }: DatabaseTask & { task: 'copy' }): Promise<CopyReport> {
  requireCopyable(from, to);
  lock(from);
  const journal = join(serverDir, 'idempotency-journal');
  if (existsSync(journal) && statSync(journal).size > 0)
    throw new Error(
      'the server was killed, and its last requests are only in its journal; start it once more with SQLite, stop it, and copy again',
    );
  const source = await openDatabase(from);
  try {
    const target = await openDatabase(to);
    try {
      let shownAt = 0;
      return await copyDatabase(source, target, (progress) => {
        if (performance.now() - shownAt < PROGRESS_MS) return;
        shownAt = performance.now();
        say({ progress });
      });
    } finally {
      await target.destroy();
    }
  } finally {
    await source.destroy();
  }
}

function requireCopyable(from: string, to: string): void {
  const file = from.startsWith('sqlite:/') ? from.slice('sqlite:'.length) : undefined;
  if (file === undefined)
    throw new Error('a copy is made from SQLite; name its file: --from sqlite:/path/to/cloche.db');
  if (!existsSync(file)) throw new Error(`there is no database ${file}; correct --from`);
  if (!/^postgres(ql)?:/.test(to))
    throw new Error('a copy is made to PostgreSQL; name its database: --to postgres://user:password@host/database');
}

/** @throws Error if a server uses a file of SQLite */
function lock(url: string): void {
  const reason = lockSqliteFile(url);
  if (reason !== undefined) throw new Error(reason);
}

function describe(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  return error.cause instanceof Error ? `${error.message}: ${error.cause.message}` : error.message;
}
