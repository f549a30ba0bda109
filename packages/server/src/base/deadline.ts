/** A time limit as an abort signal that also follows its parent signals. Dispose of it to stop its timer. */
export class Deadline implements Disposable {
  readonly signal: AbortSignal;
  readonly #limit = new AbortController();
  readonly #timer: NodeJS.Timeout;

  constructor(ms: number, ...parents: AbortSignal[]) {
    this.#timer = setTimeout(() => this.#limit.abort(), Math.max(0, ms));
    this.signal = parents.length === 0 ? this.#limit.signal : AbortSignal.any([this.#limit.signal, ...parents]);
  }

  /** Whether the time limit has passed; false when only a parent aborted. */
  get expired(): boolean {
    return this.#limit.signal.aborted;
  }

  [Symbol.dispose](): void {
    clearTimeout(this.#timer);
  }
}

/**
 * Settles as `promise` does, or rejects with the signal's reason as soon as the signal aborts. Does not cancel
 * `promise`.
 */
export async function orAbort<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  signal.throwIfAborted();
  const aborted = Promise.withResolvers<never>();
  const abort = () => aborted.reject(signal.reason);
  signal.addEventListener('abort', abort, { once: true });
  try {
    return await Promise.race([promise, aborted.promise]);
  } finally {
    signal.removeEventListener('abort', abort);
  }
}

/** Resolves after `ms` or when the signal aborts, whichever is first; never rejects. */
export function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) return resolve();
    const done = () => {
      clearTimeout(timer);
      signal.removeEventListener('abort', done);
      resolve();
    };
    const timer = setTimeout(done, ms);
    signal.addEventListener('abort', done, { once: true });
  });
}
