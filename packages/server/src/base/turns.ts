/** A semaphore: lets a limited number of callers in at a time; the others wait in order. */
export class Turns {
  readonly #waiting: (() => void)[] = [];
  readonly #atOnce: number;
  #free: number;

  constructor(atOnce: number) {
    this.#atOnce = atOnce;
    this.#free = atOnce;
  }

  /** Whether every turn is free. */
  get areFree(): boolean {
    return this.#free === this.#atOnce;
  }

  /** Resolves when the caller has a turn. The caller returns it with `give`. Rejects when `signal` aborts first. */
  async take(signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    if (this.#free > 0) {
      this.#free -= 1;
      return;
    }
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const leave = () => {
      const place = this.#waiting.indexOf(resolve);
      // The caller may have received its turn already.
      if (place !== -1) this.#waiting.splice(place, 1);
      reject(signal.reason);
    };
    this.#waiting.push(resolve);
    signal.addEventListener('abort', leave, { once: true });
    await promise;
    signal.removeEventListener('abort', leave);
  }

  give(): void {
    const next = this.#waiting.shift();
    if (next) next();
    else this.#free += 1;
  }
}
