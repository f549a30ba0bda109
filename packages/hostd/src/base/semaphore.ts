/** A counting semaphore: lets a fixed number of callers in at a time, in the order of their calls. */
export class Semaphore {
  readonly #waiting: (() => void)[] = [];
  #free: number;

  constructor(concurrency: number) {
    this.#free = concurrency;
  }

  /** Runs `act` when a slot is free. Rejects with the signal's reason if the signal aborts first. */
  async run<T>(signal: AbortSignal, act: () => Promise<T>): Promise<T> {
    await this.#enter(signal);
    try {
      return await act();
    } finally {
      this.#leave();
    }
  }

  async #enter(signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    if (this.#free > 0) {
      this.#free -= 1;
      return;
    }
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const giveUp = () => {
      this.#waiting.splice(this.#waiting.indexOf(enter), 1);
      reject(signal.reason);
    };
    const enter = () => {
      signal.removeEventListener('abort', giveUp);
      resolve();
    };
    this.#waiting.push(enter);
    signal.addEventListener('abort', giveUp, { once: true });
    await promise;
  }

  #leave(): void {
    const next = this.#waiting.shift();
    if (next) next();
    else this.#free += 1;
  }
}
