/** What a sandbox may send at once, in units: an event is one, and so are so many bytes of it. */
const BURST = 1000;
const BYTES_PER_UNIT = 16 * 1024;
/** What it gets back: 20,000 events or 320 MB a second, which costs the server some hundredths of its time. */
const UNITS_PER_MS = 20;
/** The shortest rest, so that a flood is read in slices that are worth their while. */
const MIN_REST_MS = 10;

export type Clock = () => number;

/**
 * How fast the events of one sandbox are read, all its runs together. Each costs the server the same however small it
 * is, so whoever floods it with them rests in between and the server turns to others.
 */
export class EventBudget {
  readonly #now: Clock;
  #units = BURST;
  #countedAt: number;

  /** @param now in milliseconds. */
  constructor(now: Clock = () => performance.now()) {
    this.#now = now;
    this.#countedAt = now();
  }

  /** Pays for an event. How many milliseconds to rest before the next one; 0 for none. */
  spend(bytes: number): number {
    this.#units -= 1 + bytes / BYTES_PER_UNIT;
    if (this.#units >= 0) return 0;
    const now = this.#now();
    this.#units = Math.min(BURST, this.#units + (now - this.#countedAt) * UNITS_PER_MS);
    this.#countedAt = now;
    return this.#units >= 0 ? 0 : Math.max(MIN_REST_MS, -this.#units / UNITS_PER_MS);
  }
}
