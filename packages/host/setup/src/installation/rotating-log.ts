import { closeSync, fstatSync, mkdirSync, openSync, renameSync, writeSync } from 'node:fs';
import { dirname } from 'node:path';

const MAX_BYTES = 16 * 1024 * 1024;
const RECENT_LINES = 20;

/** A log file limited to twice `maxBytes`: the older half is in `….1` in the same folder. */
export class RotatingLog {
  readonly file: string;
  readonly #maxBytes: number;
  #descriptor: number;
  #bytes: number;
  #recent = '';

  constructor(file: string, maxBytes: number = MAX_BYTES) {
    this.file = file;
    this.#maxBytes = maxBytes;
    mkdirSync(dirname(file), { recursive: true });
    this.#descriptor = openSync(file, 'a', 0o640);
    this.#bytes = fstatSync(this.#descriptor).size;
  }

  /** Writes to the log. A full disk loses these lines, but does not stop the part that wrote them. */
  write(chunk: Buffer): void {
    try {
      if (this.#bytes > 0 && this.#bytes + chunk.length > this.#maxBytes) this.#rotate();
      this.#bytes += writeSync(this.#descriptor, chunk);
    } catch {
      // The log itself failed, so the error cannot be logged.
    }
    this.#recent = (this.#recent + chunk.toString('utf8')).slice(-16_384);
  }

  /** Returns the last lines written by this process. */
  recentLines(): string[] {
    return this.#recent.trimEnd().split('\n').slice(-RECENT_LINES);
  }

  close(): void {
    closeSync(this.#descriptor);
  }

  #rotate(): void {
    renameSync(this.file, `${this.file}.1`);
    const next = openSync(this.file, 'a', 0o640);
    closeSync(this.#descriptor);
    this.#descriptor = next;
    this.#bytes = 0;
  }
}
