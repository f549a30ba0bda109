/** Launches ahead start after this time without a claim, so that they do not slow down a burst of claims. */
const QUIET_MS = 25;
/** Longest time that launches ahead are delayed, however many claims follow. */
const PATIENCE_MS = 250;
const NEVER = { first: Number.NEGATIVE_INFINITY, last: Number.NEGATIVE_INFINITY };

/** Says when launches ahead may start: requested launches and claims come first. Times are milliseconds. */
export class RefillPacing {
  #requested = 0;
  #heldSince = 0;
  /** Times of the first and the last claim since the last launch ahead. */
  #claimed = NEVER;

  /** Suspends launches ahead while a requested launch runs: until `requestEnded`, at most `PATIENCE_MS`. */
  requestStarted(): void {
    if (this.#requested === 0) this.#heldSince = performance.now();
    this.#requested += 1;
  }

  requestEnded(): void {
    this.#requested -= 1;
  }

  noteClaim(): void {
    this.#noteUntil(performance.now());
  }

  /** Notes that a sandbox claimed now computes from its first moment. Counts as claims for the next `PATIENCE_MS`. */
  noteBusyClaim(): void {
    this.#noteUntil(performance.now() + PATIENCE_MS);
  }

  noteLaunchAhead(): void {
    this.#claimed = NEVER;
  }

  /**
   * Returns the longest time until launches ahead are no longer suspended. The time is bounded because, while the pool
   * is empty, every request is a launch of its own, and there may always be one under way.
   */
  suspendedMs(): number {
    if (this.#requested === 0) return 0;
    return Math.max(0, this.#heldSince + PATIENCE_MS - performance.now());
  }

  /** Returns the time until launches ahead may start after the last claims. */
  quietMs(): number {
    const { first, last } = this.#claimed;
    return Math.max(0, Math.min(last + QUIET_MS, first + PATIENCE_MS) - performance.now());
  }

  #noteUntil(last: number): void {
    const first = this.#claimed === NEVER ? performance.now() : this.#claimed.first;
    this.#claimed = { first, last: Math.max(last, this.#claimed.last) };
  }
}
