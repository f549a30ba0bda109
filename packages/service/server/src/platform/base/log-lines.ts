import { openSync, writeSync } from 'node:fs';
import { type DestinationStream, symbols } from 'pino';

/** Longest time that a line below `warn` waits to be written together with others. */
const GATHER_MS = 200;
const GATHER_BYTES = 16 * 1024;
/** Most bytes kept while the reader is too slow. Lines beyond this are dropped. */
const MAX_BYTES = 4 * 1024 * 1024;
const INFO = 30;

/**
 * Writes log lines to a file or descriptor. Lines below `warn` are written in batches, because one write for each
 * request would wake the log's reader for each request. A line at `warn` or above is written at once, after all lines
 * before it. Call `flushSync` before the process exits. When the disk is full or the reader is gone, lines are lost and
 * nothing else fails: pino's own destination would wait for ever.
 */
export class LogLines implements DestinationStream {
  /** Makes pino set `lastLevel` before each line. */
  readonly [symbols.needsMetadataGsym] = true;
  lastLevel = INFO;
  readonly #fd: number;
  #gathered: Buffer[] = [];
  #bytes = 0;
  /** Whether the last write was incomplete because the reader's buffer is full. */
  #isBehind = false;
  #timer: NodeJS.Timeout | undefined;

  /** @param to a file path or a file descriptor; by default standard output. */
  constructor(to: string | number = 1) {
    this.#fd = typeof to === 'number' ? to : openSync(to, 'a');
  }

  write(line: string): void {
    if (this.#bytes > MAX_BYTES) return;
    const bytes = Buffer.from(line);
    this.#gathered.push(bytes);
    this.#bytes += bytes.length;
    const isDue = this.lastLevel > INFO || this.#bytes >= GATHER_BYTES;
    if (isDue && !this.#isBehind) this.flushSync();
    else this.#flushSoon();
  }

  /** Writes all waiting lines. Does not throw. */
  flushSync(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    const bytes = Buffer.concat(this.#gathered, this.#bytes);
    let done = 0;
    try {
      while (done < bytes.length) done += writeSync(this.#fd, bytes, done);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EAGAIN') done = bytes.length;
    }
    this.#gathered = done < bytes.length ? [bytes.subarray(done)] : [];
    this.#bytes = bytes.length - done;
    this.#isBehind = this.#bytes > 0;
    if (this.#isBehind) this.#flushSoon();
  }

  #flushSoon(): void {
    this.#timer ??= setTimeout(() => this.flushSync(), GATHER_MS);
  }
}
