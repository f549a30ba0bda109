import { closeSync, openSync } from 'node:fs';
import { bindLibc, checked, SyscallError } from './libc.ts';

const flockCall = bindLibc('int flock(int fd, int operation)');
const LOCK_EX = 2;
const LOCK_NB = 4;

/**
 * Runs `critical` while this process holds the lock of that file, exclusively on this host. Blocks the thread, so
 * `critical` is synchronous and short. The kernel releases the lock of a process that dies.
 */
export function withFileLock<T>(path: string, critical: () => T): T {
  const fd = openSync(path, 'a', 0o600);
  try {
    checked(flockCall(fd, LOCK_EX), 'flock', path);
    return critical();
  } finally {
    closeSync(fd);
  }
}

/** Acquires the lock of that file for the lifetime of this process. Returns false when another process holds it. */
export function holdFileLock(path: string): boolean {
  const fd = openSync(path, 'a', 0o600);
  try {
    checked(flockCall(fd, LOCK_EX | LOCK_NB), 'flock', path);
    return true;
  } catch (error) {
    closeSync(fd);
    if (error instanceof SyscallError && error.code === 'EAGAIN') return false;
    throw error;
  }
}
