import { mkdirSync, readFileSync, statSync } from 'node:fs';
import { dirname } from 'node:path';
import { DatabaseSync } from 'node:sqlite';

/** Locks of this process. A lock that is not referred to would be closed. */
const held: DatabaseSync[] = [];

/**
 * Keeps every other server from the file of a SQLite database until this process ends, however it ends: two servers would
 * both execute what each of them remembers as new. Returns undefined once the file is locked, or the reason why it
 * cannot be. Other databases are not locked.
 *
 * The lock is that of an empty SQLite database beside the file: Node.js has no function for locks of files.
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
