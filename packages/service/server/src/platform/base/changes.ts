/** Carries change notifications between the servers of one database. */
export interface Peers<Key extends string> {
  /** Notifies the other servers that a resource has changed. Best effort: a notification may be lost. */
  tell(key: Key): void;
  /**
   * Longest time after which a waiter reads its records again without a notification, because one may have been lost.
   * Undefined if no other server changes them.
   */
  readonly lookAgainMs: number | undefined;
}

/**
 * Wakes waiters when the resource with a key changes. The waiters then read its records again. Without `peers`, this is
 * the only server that makes changes.
 */
export class Changes<Key extends string> {
  readonly #watches = new Map<Key, Set<Watch>>();
  readonly #peers: Peers<Key> | undefined;

  constructor(peers?: Peers<Key>) {
    this.#peers = peers;
  }

  /** Wakes the waiters of all servers. Call it after the commit of the change. */
  notify(key: Key): void {
    this.wake(key);
    this.#peers?.tell(key);
  }

  /** Wakes the waiters of this server alone. */
  wake(key: Key): void {
    for (const watch of this.#watches.get(key) ?? []) watch.wake();
  }

  /** Wakes every waiter of this server, because notifications may have been lost. */
  wakeAll(): void {
    for (const key of this.#watches.keys()) this.wake(key);
  }

  /** Starts a watch. The caller disposes it; otherwise it leaks. */
  watch(key: Key): Watch {
    const watches = this.#watches.get(key) ?? new Set();
    this.#watches.set(key, watches);
    const forget = () => {
      watches.delete(watch);
      if (watches.size === 0 && this.#watches.get(key) === watches) this.#watches.delete(key);
    };
    const watch = new Watch(forget, this.#peers?.lookAgainMs);
    watches.add(watch);
    return watch;
  }
}

export class Watch implements Disposable {
  readonly #forget: () => void;
  readonly #lookAgainMs: number | undefined;
  #waiting: PromiseWithResolvers<void> | undefined;
  #lookAgain: NodeJS.Timeout | undefined;

  /** @param lookAgainMs longest time of a wait; undefined for a wait that only a change ends */
  constructor(forget: () => void, lookAgainMs?: number) {
    this.#forget = forget;
    this.#lookAgainMs = lookAgainMs;
  }

  /**
   * Resolves at the next change after this call, or when it is time to read the records again. Call it before reading
   * the record, so that no change is missed.
   */
  next(): Promise<void> {
    if (!this.#waiting) {
      this.#waiting = Promise.withResolvers<void>();
      if (this.#lookAgainMs !== undefined) this.#lookAgain = setTimeout(() => this.wake(), this.#lookAgainMs);
    }
    return this.#waiting.promise;
  }

  wake(): void {
    clearTimeout(this.#lookAgain);
    this.#waiting?.resolve();
    this.#waiting = undefined;
  }

  [Symbol.dispose](): void {
    clearTimeout(this.#lookAgain);
    this.#forget();
  }
}
