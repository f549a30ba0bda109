import { read, readSync, write, writeSync } from 'node:fs';
import { promisify } from 'node:util';

/** Reads and writes on Node's thread pool. Both resolve with an object, as Node defines it for these two functions. */
export const THREADS = { read: promisify(read), write: promisify(write) };

/** The system's cache answers within a tenth of it, unless the processor was somebody else's. */
const SLOW_MS = 4;
/** So many reads or writes take the longer way before the short one is tried again. */
const PATIENCE = 32;

/**
 * Reads and writes of one file, at places that the caller names. To ask a thread costs more than what the system's cache
 * takes to answer, so they are done at once for as long as they are quick; when the disk has kept one waiting, which is
 * everybody else's wait too, those that follow go through threads.
 */
export class QuickFile {
  readonly #fd: number;
  readonly #now: () => number;
  #leftToThreads = 0;

  /** @param fd stays the caller's to close. */
  constructor(fd: number, now = () => performance.now()) {
    this.#fd = fd;
    this.#now = now;
  }

  /** How many of the next `length` bytes were read into the beginning of `into`; 0 at the end of the file. */
  read(into: Buffer, length: number, position: number): Promise<number> {
    return this.#do(
      () => readSync(this.#fd, into, 0, length, position),
      async () => (await THREADS.read(this.#fd, into, 0, length, position)).bytesRead,
    );
  }

  /** Writes all of the first `length` bytes. A full disk takes a part first, and refuses the rest. */
  async write(bytes: Buffer, length: number, position: number): Promise<void> {
    for (let done = 0; done < length; ) {
      const [from, left, at] = [done, length - done, position + done];
      done += await this.#do(
        () => writeSync(this.#fd, bytes, from, left, at),
        async () => (await THREADS.write(this.#fd, bytes, from, left, at)).bytesWritten,
      );
    }
  }

  async #do(atOnce: () => number, byThread: () => Promise<number>): Promise<number> {
    if (this.#leftToThreads > 0) {
      this.#leftToThreads -= 1;
      return byThread();
    }
    const began = this.#now();
    const moved = atOnce();
    if (this.#now() - began > SLOW_MS) this.#leftToThreads = PATIENCE;
    return moved;
  }
}
