/**
 * Failures that one address, and all addresses together, may have in a burst. One more is allowed after each interval.
 */
const OF_ADDRESS = { burst: 20, intervalMs: 1000 };
const OF_ALL = { burst: 100, intervalMs: 100 };
/** Most addresses that are remembered. */
const ADDRESSES = 10_000;

interface Bucket {
  readonly burst: number;
  readonly intervalMs: number;
  used: number;
  at: number;
}

/** Limits failed attempts at an operation that is expensive for the server and cheap for a client. */
export class FailureLimit {
  readonly #all: Bucket = { ...OF_ALL, used: 0, at: 0 };
  readonly #addresses = new Map<string, Bucket>();
  readonly #now: () => number;

  constructor(now: () => number = Date.now) {
    this.#now = now;
  }

  /** Returns the milliseconds to wait before the next attempt; 0 if it may be made now. */
  waitMs(address: string): number {
    return Math.max(this.#waitMs(this.#all), this.#waitMs(this.#addresses.get(address)));
  }

  failed(address: string): void {
    const own = this.#addresses.get(address) ?? { ...OF_ADDRESS, used: 0, at: this.#now() };
    this.#addresses.delete(address);
    this.#addresses.set(address, own);
    const [oldest] = this.#addresses.keys();
    if (this.#addresses.size > ADDRESSES && oldest !== undefined) this.#addresses.delete(oldest);
    for (const bucket of [this.#all, own]) {
      this.#leak(bucket);
      bucket.used += 1;
    }
  }

  #waitMs(bucket: Bucket | undefined): number {
    if (!bucket) return 0;
    this.#leak(bucket);
    return bucket.used < bucket.burst ? 0 : Math.ceil((bucket.used - bucket.burst + 1) * bucket.intervalMs);
  }

  #leak(bucket: Bucket): void {
    const now = this.#now();
    bucket.used = Math.max(0, bucket.used - (now - bucket.at) / bucket.intervalMs);
    bucket.at = now;
  }
}
