import { onAbort } from './abort.ts';

/**
 * A counting semaphore: lets a fixed number of callers in at a time, in the order of their calls. Libraries such as
 * p-limit and async-mutex cannot withdraw one waiting caller by its signal.
 */
export class Semaphore {
  readonly #waiting = new Set<() => void>();
  readonly #concurrency: number;
  #free: number;

  constructor(concurrency: number) {
    this.#concurrency = concurrency;
    this.#free = concurrency;
  }

  /** Whether no caller is in. */
  get isIdle(): boolean {
    return this.#free === this.#concurrency;
  }

  /**
   * Resolves with a slot when one is free; disposing of it gives it back (idempotent). Rejects with the signal's reason
   * if the signal aborts first.
   */
  async acquire(signal: AbortSignal): Promise<Disposable> {
    signal.throwIfAborted();
    const slot = this.tryAcquire();
    if (slot) return slot;
    await this.#wait(signal);
    return this.#slot();
  }

  /** Returns a slot as `acquire` does, or undefined if none is free now. */
  tryAcquire(): Disposable | undefined {
    if (this.#free === 0) return undefined;
    this.#free -= 1;
    return this.#slot();
  }

  /** Runs `act` when a slot is free. Rejects with the signal's reason if the signal aborts first. */
  async run<T>(signal: AbortSignal, act: () => Promise<T>): Promise<T> {
    using _ = await this.acquire(signal);
    return await act();
  }

  #slot(): Disposable {
    let isHeld = true;
    return {
      [Symbol.dispose]: () => {
        if (isHeld) this.#leave();
        isHeld = false;
      },
    };
  }

  /** Resolves when a leaving caller has handed its slot over. */
  async #wait(signal: AbortSignal): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    this.#waiting.add(resolve);
    using _ = onAbort(signal, () => {
      // A caller that has received its slot keeps it.
      if (this.#waiting.delete(resolve)) reject(signal.reason);
    });
    await promise;
  }

  #leave(): void {
    const [next] = this.#waiting;
    if (next === undefined) {
      this.#free += 1;
      return;
    }
    this.#waiting.delete(next);
    next();
  }
}
