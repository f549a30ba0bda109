export interface ShareLimits {
  /** Most items that all sources hold together. */
  total: number;
  perSource: number;
}

/** An item that a share counts, such as a connection. */
export interface HeldItem {
  /** Ends the item. Called at most once, when the share needs the place for another source. */
  evict(): void;
  /** Whether the item is idle. Idle items are evicted first, the oldest of them before others. */
  readonly isIdle?: boolean;
}

/**
 * Limits how many items each source holds, and all sources together. When all places are taken, a source below its
 * limit still gets one: the source with the most items loses one. So greedy sources cannot keep another one out.
 * A `Semaphore` would let the source that came first keep all places.
 */
export class FairShare {
  readonly #limits: ShareLimits;
  readonly #bySource = new Map<string, Set<HeldItem>>();
  #total = 0;

  constructor(limits: ShareLimits) {
    this.#limits = limits;
  }

  get total(): number {
    return this.#total;
  }

  /** Returns a place; disposing of it gives it back (idempotent). Undefined if the source has used up its share. */
  tryEnter(source: string, held: HeldItem): Disposable | undefined {
    const own = this.#bySource.get(source)?.size ?? 0;
    if (own >= this.#limits.perSource) return undefined;
    if (this.#total >= this.#limits.total && !this.#makeRoom(source, own)) return undefined;
    // Read again, because `#makeRoom` may have removed the last item of this source and its set.
    const ofSource = this.#bySource.get(source) ?? new Set();
    this.#bySource.set(source, ofSource.add(held));
    this.#total += 1;
    return { [Symbol.dispose]: () => this.#leave(source, held) };
  }

  #makeRoom(source: string, own: number): boolean {
    const [greediest, most] = this.#greediest();
    // Evicting is fair only if the loser still holds at least as many items as this source gets.
    const isGreedier = greediest !== undefined && most > own + 1;
    const [loser, victim] = isGreedier
      ? [greediest, this.#oldestIdle(greediest) ?? this.#newest(greediest)]
      : [source, this.#oldestIdle(source)];
    if (victim === undefined) return false;
    this.#leave(loser, victim);
    victim.evict();
    return true;
  }

  #greediest(): [source: string | undefined, count: number] {
    let greediest: string | undefined;
    let most = 0;
    for (const [source, { size }] of this.#bySource) {
      if (size > most) [greediest, most] = [source, size];
    }
    return [greediest, most];
  }

  #oldestIdle(source: string): HeldItem | undefined {
    return this.#bySource
      .get(source)
      ?.values()
      .find(({ isIdle }) => isIdle);
  }

  #newest(source: string): HeldItem | undefined {
    return [...(this.#bySource.get(source) ?? [])].at(-1);
  }

  #leave(source: string, held: HeldItem): void {
    const ofSource = this.#bySource.get(source);
    if (!ofSource?.delete(held)) return;
    this.#total -= 1;
    if (ofSource.size === 0) this.#bySource.delete(source);
  }
}
