/** Wakes waiters in this server when the resource with a key changes; they then read its records again. */
export class Changes<Key extends string> {
  readonly #watches = new Map<Key, Set<Watch>>();

  notify(key: Key): void {
    for (const watch of this.#watches.get(key) ?? []) watch.wake();
  }

  /** Starts a watch. The caller disposes it; otherwise it leaks. */
  watch(key: Key): Watch {
    const watches = this.#watches.get(key) ?? new Set();
    this.#watches.set(key, watches);
    const watch = new Watch(() => {
      watches.delete(watch);
      if (watches.size === 0 && this.#watches.get(key) === watches) this.#watches.delete(key);
    });
    watches.add(watch);
    return watch;
  }
}

export class Watch implements Disposable {
  readonly #forget: () => void;
  #waiting: PromiseWithResolvers<void> | undefined;

  constructor(forget: () => void) {
    this.#forget = forget;
  }

  /** Resolves at the next change after this call. Call it before reading the record, so that no change is missed. */
  next(): Promise<void> {
    this.#waiting ??= Promise.withResolvers<void>();
    return this.#waiting.promise;
  }

  wake(): void {
    this.#waiting?.resolve();
    this.#waiting = undefined;
  }

  [Symbol.dispose](): void {
    this.#forget();
  }
}
