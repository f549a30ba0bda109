/** Units that may be spent at once. An event costs one unit, and one more for each `BYTES_PER_UNIT` bytes of it. */
const BURST = 1000;
const BYTES_PER_UNIT = 16 * 1024;
/**
 * Units restored per millisecond: 10,000 events or 160 MB a second, which costs the server's only thread about a third
 * of its time.
 */
const UNITS_PER_MS = 10;
/** Shortest rest in milliseconds, so that a flood of events is read in batches of a useful size. */
const MIN_REST_MS = 10;

export type Clock = () => number;

/** A bucket of units that are spent and restored over time. */
class Bucket {
  readonly #now: Clock;
  #units = BURST;
  #countedAt: number;

  constructor(now: Clock) {
    this.#now = now;
    this.#countedAt = now();
  }

  /**
   * Spends units and returns those that are left, which may be negative. The result is exact below half of the burst.
   */
  take(units: number): number {
    this.#units -= units;
    if (this.#units >= BURST / 2) return this.#units;
    const now = this.#now();
    this.#units = Math.min(BURST, this.#units + (now - this.#countedAt) * UNITS_PER_MS);
    this.#countedAt = now;
    return this.#units;
  }
}

/** The budget shared by all sandboxes that send many events. */
export class SharedBudget {
  readonly now: Clock;
  readonly bucket: Bucket;

  /** @param now in milliseconds. */
  constructor(now: Clock = () => performance.now()) {
    this.now = now;
    this.bucket = new Bucket(now);
  }
}

/**
 * Limits how fast the events of one sandbox are read, over all its runs. Each event costs the server the same however
 * small it is, so reading from a flooding sandbox pauses to let the server handle others. A sandbox that has spent half
 * of its burst also draws on one shared budget, so that many floods together cost no more than one.
 */
export class EventBudget {
  readonly #own: Bucket;
  readonly #shared: Bucket;

  constructor(shared: SharedBudget = new SharedBudget()) {
    this.#own = new Bucket(shared.now);
    this.#shared = shared.bucket;
  }

  /** Spends units for an event and returns the milliseconds to rest before the next one; 0 for no rest. */
  spend(bytes: number): number {
    const units = 1 + bytes / BYTES_PER_UNIT;
    const own = this.#own.take(units);
    if (own >= BURST / 2) return 0;
    const left = Math.min(own, this.#shared.take(units));
    return left >= 0 ? 0 : Math.max(MIN_REST_MS, -left / UNITS_PER_MS);
  }
}
