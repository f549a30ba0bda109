import { mkdirSync, readFileSync, statSync } from 'node:fs';
import { dirname } from 'node:path';
import { DatabaseSync } from 'node:sqlite';

/** Locks that this process holds. A lock without a reference could be garbage-collected, which would release it. */
const held: DatabaseSync[] = [];

/**
 * Prevents other servers from using the file of a SQLite database until this process ends, however it ends: two servers
 * could both execute a request that each of them takes for new. Returns undefined if the file is now locked, or the
 * reason why it cannot be locked. Does not lock other kinds of databases.
 *
 * The lock is a lock on an empty SQLite database beside the file, because Node.js has no function for file locks.
 */
export function lockSqliteFile(databaseUrl: string): string | undefined {
  const file = databaseUrl.startsWith('sqlite:/') ? databaseUrl.slice('sqlite:'.length) : undefined;
  if (file === undefined) return undefined;
  const lockFile = `${file}-lock`;
  mkdirSync(dirname(file), { recursive: true, mode: 0o700 });
  const lock = new DatabaseSync(lockFile, { timeout: 0 });
  try {
    // Released by the kernel when the process ends.
    lock.exec('begin exclusive');
  } catch (error) {
    lock.close();
    if (!isBusy(error)) throw error;
    const holder = holderOf(lockFile);
    return (
      `another server${holder === undefined ? '' : `, process ${holder},`} uses the database ${file}, and a file of SQLite ` +
      'has one server; stop the other one, or set another CLOCHE_DATA_DIR or CLOCHE_DATABASE_URL'
    );
  }
  held.push(lock);
  return undefined;
}

/** `SQLITE_BUSY`. */
function isBusy(error: unknown): boolean {
  return error instanceof Error && 'errcode' in error && error.errcode === 5;
}

/** Returns the process that has locked a file, if this process can see it. */
function holderOf(lockFile: string): string | undefined {
  const { ino } = statSync(lockFile);
  return new RegExp(`WRITE +([1-9]\\d*) \\S+:${ino} `).exec(readFileSync('/proc/locks', 'utf8'))?.[1];
}
