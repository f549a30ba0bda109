/** Runs the tasks of one key one after another, in the order of their calls. Tasks of different keys run side by side. */
export class KeyedQueue<Key> {
  /** Resolves when the last task of a key so far has settled; removed then, unless another task followed. */
  readonly #lasts = new Map<Key, Promise<void>>();

  /** Runs `task` after the earlier ones of its key, whether they succeeded or failed, and settles as it does. */
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

  /** Resolves when no task runs or waits, those queued meanwhile included. */
  async idle(): Promise<void> {
    while (this.#lasts.size > 0) await Promise.all(this.#lasts.values());
  }
}
