import { openSync, writeSync } from 'node:fs';
import { type DestinationStream, symbols } from 'pino';

/** Of lines that tell of nothing wrong; within it they are written in one piece. */
const GATHER_MS = 200;
const GATHER_BYTES = 16 * 1024;
/** Of lines that whoever takes them is too slow for; those beyond are lost. */
const MAX_BYTES = 4 * 1024 * 1024;
const INFO = 30;

/**
 * Where log lines go. One for each request would wake whoever takes them for each request; what is a warning or worse
 * goes at once, with all before it. Whoever ends the process flushes. A log that takes nothing, as its disk is full or its
 * reader gone, costs its lines and nothing else: pino's own destination would wait for it for ever.
 */
export class LogLines implements DestinationStream {
  /** Asks pino for the level of each line. */
  readonly [symbols.needsMetadataGsym] = true;
  lastLevel = INFO;
  readonly #fd: number;
  #gathered: Buffer[] = [];
  #bytes = 0;
  /** Whoever takes the lines has no room now. */
  #isBehind = false;
  #timer: NodeJS.Timeout | undefined;

  /** `to` is a file or a descriptor. */
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

  /** Does not throw. */
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
