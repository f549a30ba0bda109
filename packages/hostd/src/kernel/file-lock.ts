import { closeSync, openSync } from 'node:fs';
import { bindLibc, checked, SyscallError } from './libc.ts';

const flockCall = bindLibc('int flock(int fd, int operation)');
const LOCK_EX = 2;
const LOCK_NB = 4;

/**
 * Runs `critical` while no other process of the host holds the lock of that file. It blocks the thread, so `critical`
 * is synchronous and short; a holder that dies releases it.
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

/** Holds the lock of that file for as long as this process lives; false when another process does. */
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
