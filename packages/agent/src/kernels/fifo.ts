import { execFile } from 'node:child_process';
import { closeSync, constants, fchownSync, mkdtempSync, openSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';

const run = promisify(execFile);

/** Both ends of a pipe. The read end does not block. */
export interface Fifo {
  readFd: number;
  writeFd: number;
}

/**
 * Real pipes, in place of the sockets that Node gives a child: a program may open `/dev/stdout`, which a socket refuses.
 * They have no name when this returns. `uid` may open them through `/proc/self/fd`.
 */
export async function createFifos(count: number, uid: number, gid: number): Promise<Fifo[]> {
  const folder = privateFolder();
  const opened: Fifo[] = [];
  try {
    const paths = Array.from({ length: count }, (_, index) => join(folder, String(index)));
    await run('mkfifo', ['-m', '0600', ...paths]);
    for (const path of paths) {
      // Opened for both, so that neither end waits for the other and the end of one writer is not the end of the pipe.
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

/** In memory where there is such a place: a full disk must not keep a kernel from starting. */
function privateFolder(): string {
  try {
    return mkdtempSync('/dev/shm/cloche-');
  } catch {
    return mkdtempSync(join(tmpdir(), 'cloche-'));
  }
}
