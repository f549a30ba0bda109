/** Counts what is under way, by key and in all. A key whose count is zero takes no memory. */
export class KeyCounts<Key> {
  readonly #counts = new Map<Key, number>();
  #total = 0;

  get total(): number {
    return this.#total;
  }

  of(key: Key): number {
    return this.#counts.get(key) ?? 0;
  }

  /** Returns the keys whose count is at least `least`, which is positive. */
  keysWith(least: number): Key[] {
    return [...this.#counts].filter(([, count]) => count >= least).map(([key]) => key);
  }

  /** Counts one more, until the result is disposed of. Idempotent. */
  add(key: Key): Disposable {
    this.#change(key, 1);
    let isCounted = true;
    return {
      [Symbol.dispose]: () => {
        if (isCounted) this.#change(key, -1);
        isCounted = false;
      },
    };
  }

  #change(key: Key, by: 1 | -1): void {
    const count = this.of(key) + by;
    this.#total += by;
    if (count === 0) this.#counts.delete(key);
    else this.#counts.set(key, count);
  }
}
