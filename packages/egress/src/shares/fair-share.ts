export interface ShareLimits {
  /** The largest number that all sources hold together. */
  total: number;
  perSource: number;
}

/** An item that a share counts, such as a connection. */
export interface Held {
  /** Ends it. Called at most once, by a share that needs its place for another source. */
  evict(): void;
  /** Whether its end would be noticed least: such things are evicted first, the oldest before others. */
  readonly isIdle?: boolean;
}

/**
 * Counts what is held, for each source and in all. A source that is below its limit gets a place also when all are taken:
 * the source that holds most loses one. So many greedy sources cannot keep another one out.
 */
export class FairShare {
  readonly #limits: ShareLimits;
  readonly #bySource = new Map<string, Set<Held>>();
  #total = 0;

  constructor(limits: ShareLimits) {
    this.#limits = limits;
  }

  get total(): number {
    return this.#total;
  }

  /** A place, given back by disposing of it (idempotent). Undefined when the source already has its share. */
  tryEnter(source: string, held: Held): Disposable | undefined {
    const own = this.#bySource.get(source)?.size ?? 0;
    if (own >= this.#limits.perSource) return undefined;
    if (this.#total >= this.#limits.total && !this.#makeRoom(source, own)) return undefined;
    // Read again: what makes room may have ended the last one of this source.
    const ofSource = this.#bySource.get(source) ?? new Set();
    this.#bySource.set(source, ofSource.add(held));
    this.#total += 1;
    return { [Symbol.dispose]: () => this.#leave(source, held) };
  }

  #makeRoom(source: string, own: number): boolean {
    const [greediest, most] = this.#greediest();
    // With one more, this source must not hold more than the one that loses one.
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

  #oldestIdle(source: string): Held | undefined {
    return this.#bySource
      .get(source)
      ?.values()
      .find(({ isIdle }) => isIdle);
  }

  #newest(source: string): Held | undefined {
    return [...(this.#bySource.get(source) ?? [])].at(-1);
  }

  #leave(source: string, held: Held): void {
    const ofSource = this.#bySource.get(source);
    if (!ofSource?.delete(held)) return;
    this.#total -= 1;
    if (ofSource.size === 0) this.#bySource.delete(source);
  }
}
