import type { SandboxId } from '@cloche/contract';

/** Wakes waiters in this server when a sandbox changes; they then read its record again. */
export class SandboxChanges {
  readonly #watches = new Map<SandboxId, Set<SandboxWatch>>();

  notify(id: SandboxId): void {
    for (const watch of this.#watches.get(id) ?? []) watch.wake();
  }

  /** Starts a watch. The caller disposes it; otherwise it leaks. */
  watch(id: SandboxId): SandboxWatch {
    const watches = this.#watches.get(id) ?? new Set();
    this.#watches.set(id, watches);
    const watch = new SandboxWatch(() => {
      watches.delete(watch);
      if (watches.size === 0 && this.#watches.get(id) === watches) this.#watches.delete(id);
    });
    watches.add(watch);
    return watch;
  }
}

export class SandboxWatch implements Disposable {
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
