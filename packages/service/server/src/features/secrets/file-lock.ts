import { DatabaseSync } from 'node:sqlite';

/** Longest wait for another process. This process does nothing else meanwhile. */
const WAIT_MS = 2_000;

/**
 * Calls `act` while no other call for `file` runs, in this process or in another one of the host. The kernel releases
 * the lock of a process that ends.
 *
 * The lock is a lock on an empty SQLite database beside the file, because Node.js has no function for file locks.
 *
 * @throws Error if another process holds the lock for longer than two seconds
 */
export function withFileLock<T>(file: string, act: () => T): T {
  using lock = new DatabaseSync(`${file}-lock`, { timeout: WAIT_MS });
  lock.exec('begin exclusive');
  return act();
}
