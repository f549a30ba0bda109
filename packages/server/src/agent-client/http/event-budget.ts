/** Units that may be spent at once. An event costs one unit, and one more for each `BYTES_PER_UNIT` bytes of it. */
const BURST = 1000;
const BYTES_PER_UNIT = 16 * 1024;
/**
 * Units restored per millisecond: 10,000 events or 160 MB a second, which costs the server's only thread about a third
 * of its time.
 */
const UNITS_PER_MS = 10;
/** The shortest rest, so that a flood is read in slices that are worth their while. */
const MIN_REST_MS = 10;

export type Clock = () => number;

/** Units that are spent and come back with time. */
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

/** The budget that the sandboxes of a server that send many events share. */
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
 * How fast the events of one sandbox are read, all its runs together. Each costs the server the same however small it
 * is, so a sandbox that floods it with them rests in between and the server turns to others. Beyond half of its burst a
 * sandbox shares one budget with all that do the same, so that many floods cost no more than one.
 */
export class EventBudget {
  readonly #own: Bucket;
  readonly #shared: Bucket;

  constructor(shared: SharedBudget = new SharedBudget()) {
    this.#own = new Bucket(shared.now);
    this.#shared = shared.bucket;
  }

  /** Pays for an event. How many milliseconds to rest before the next one; 0 for none. */
  spend(bytes: number): number {
    const units = 1 + bytes / BYTES_PER_UNIT;
    const own = this.#own.take(units);
    if (own >= BURST / 2) return 0;
    const left = Math.min(own, this.#shared.take(units));
    return left >= 0 ? 0 : Math.max(MIN_REST_MS, -left / UNITS_PER_MS);
  }
}
