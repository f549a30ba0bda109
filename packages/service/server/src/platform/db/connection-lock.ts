/** A mutex over the one connection of an embedded database. Waiting callers get it in order. */
export class ConnectionLock {
  readonly #waiting: (() => void)[] = [];
  #isHeld = false;

  /** Resolves when the caller holds the lock. The caller must call `release`. */
  async acquire(): Promise<void> {
    if (!this.#isHeld) {
      this.#isHeld = true;
      return;
    }
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#waiting.push(resolve);
    await promise;
  }

  release(): void {
    const next = this.#waiting.shift();
    if (next) next();
    else this.#isHeld = false;
  }
}
