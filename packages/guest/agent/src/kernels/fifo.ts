import { closeSync, constants, fchownSync, mkdtempSync, openSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { makeFifo } from '../base/make-fifo.ts';

/** Descriptors of a pipe. Reading does not block. */
export interface Fifo {
  readFd: number;
  writeFd: number;
}

/**
 * Creates named pipes, opens them and removes their names. Pipes, because Node would give a child sockets, and a
 * program cannot open `/dev/stdout` if it is a socket. `uid` may open them through `/proc/self/fd`.
 */
export function createFifos(count: number, uid: number, gid: number): Fifo[] {
  const folder = privateFolder();
  const opened: Fifo[] = [];
  try {
    const paths = Array.from({ length: count }, (_, index) => join(folder, String(index)));
    for (const path of paths) {
      makeFifo(path, 0o600);
      // Opened for reading and writing: opening then does not wait for a writer, and no writer's exit ends the pipe.
      const readFd = openSync(path, constants.O_RDWR | constants.O_NONBLOCK);
      fchownSync(readFd, uid, gid);
      opened.push({ readFd, writeFd: openSync(path, constants.O_WRONLY) });
    }
    return opened;
  } catch (error) {
    for (const { readFd, writeFd } of opened) {
      closeSync(readFd);
      closeSync(writeFd);
    }
    throw error;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Creates the folder in memory if possible, so that a full disk does not keep a kernel from starting. */
function privateFolder(): string {
  try {
    return mkdtempSync('/dev/shm/cloche-');
  } catch {
    return mkdtempSync(join(tmpdir(), 'cloche-'));
  }
}
