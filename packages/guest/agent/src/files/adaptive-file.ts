import { read, readSync, write, writeSync } from 'node:fs';
import { promisify } from 'node:util';

/** Reads and writes on Node's thread pool. Both resolve with an object, as Node defines it for these two functions. */
export const THREAD_POOL = { read: promisify(read), write: promisify(write) };

/** Duration from which a call counts as slow. The page cache answers within a tenth of it. */
const SLOW_MS = 4;
/** Calls that go through threads after a slow one, before a synchronous call is tried again. */
const CALLS_BY_THREAD = 32;

/**
 * Reads and writes one file at given positions. Calls are synchronous while they are fast, because the page cache
 * answers faster than a thread can be asked: 512 KiB are written in 17 µs instead of 35. After a slow call, which
 * blocked the whole agent, the next ones go through threads.
 */
export class AdaptiveFile {
  readonly #fd: number;
  readonly #now: () => number;
  #leftToThreads = 0;

  /** @param fd the caller closes it. */
  constructor(fd: number, now = () => performance.now()) {
    this.#fd = fd;
    this.#now = now;
  }

  /** Reads up to `length` bytes into the beginning of `into`. Returns how many; 0 at the end of the file. */
  read(into: Buffer, length: number, position: number): Promise<number> {
    return this.#do(
      () => readSync(this.#fd, into, 0, length, position),
      async () => (await THREAD_POOL.read(this.#fd, into, 0, length, position)).bytesRead,
    );
  }

  /** Writes the first `length` bytes completely. On a full disk it writes a part and then throws. */
  async write(bytes: Buffer, length: number, position: number): Promise<void> {
    for (let done = 0; done < length; ) {
      const [from, left, at] = [done, length - done, position + done];
      done += await this.#do(
        () => writeSync(this.#fd, bytes, from, left, at),
        async () => (await THREAD_POOL.write(this.#fd, bytes, from, left, at)).bytesWritten,
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
    if (this.#now() - began > SLOW_MS) this.#leftToThreads = CALLS_BY_THREAD;
    return moved;
  }
}
