/**
 * Runs the tasks of each key one after another, in the order of their calls. Tasks of different keys run concurrently.
 */
export class KeyedQueue<Key> {
  /** Promise of each key's last queued task; removed when that task settles, unless another one followed. */
  readonly #lasts = new Map<Key, Promise<void>>();

  /** Runs `task` after the earlier ones of its key, whether they succeeded or failed, and settles with its result. */
  async run<T>(key: Key, task: () => Promise<T>): Promise<T> {
    const result = (this.#lasts.get(key) ?? Promise.resolve()).then(task);
    const settled = result.then(
      () => {},
      () => {},
    );
    this.#lasts.set(key, settled);
    try {
      return await result;
    } finally {
      if (this.#lasts.get(key) === settled) this.#lasts.delete(key);
    }
  }

  /** Returns whether a task of the key runs or waits. */
  isBusy(key: Key): boolean {
    return this.#lasts.has(key);
  }

  /** Resolves when no task runs or waits, including tasks that are queued in the meantime. */
  async idle(): Promise<void> {
    while (this.#lasts.size > 0) await Promise.all(this.#lasts.values());
  }
}
