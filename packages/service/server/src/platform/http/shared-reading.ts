import { setTimeout as delay } from 'node:timers/promises';

/** Pause after a reading, as a multiple of the time that it took: requests without a key cost a tenth of the thread. */
const PAUSES = 9;
const LONGEST_PAUSE_MS = 1_000;

export interface SharedReadingOptions {
  readonly now?: () => number;
  readonly wait?: (ms: number) => Promise<void>;
}

/**
 * Reads a value for all who ask at a time. At most one reading is under way and one is due, however many requests
 * arrive. A reading begins after the requests that it answers, so it is never older than they are.
 */
export class SharedReading<T> {
  readonly #read: () => Promise<T>;
  readonly #now: () => number;
  readonly #wait: (ms: number) => Promise<void>;
  #next: Promise<T> | undefined;
  /** Resolves when the next reading may begin. */
  #rested: Promise<void> = Promise.resolve();

  constructor(read: () => Promise<T>, { now = () => performance.now(), wait = pause }: SharedReadingOptions = {}) {
    this.#read = read;
    this.#now = now;
    this.#wait = wait;
  }

  get(): Promise<T> {
    this.#next ??= this.#rested.then(() => this.#begin());
    return this.#next;
  }

  async #begin(): Promise<T> {
    this.#next = undefined;
    const over = Promise.withResolvers<void>();
    this.#rested = over.promise;
    const startedAt = this.#now();
    try {
      return await this.#read();
    } finally {
      const restMs = Math.min(LONGEST_PAUSE_MS, PAUSES * (this.#now() - startedAt));
      this.#wait(restMs).then(over.resolve, over.reject);
    }
  }
}

function pause(ms: number): Promise<void> {
  return delay(ms, undefined, { ref: false });
}
