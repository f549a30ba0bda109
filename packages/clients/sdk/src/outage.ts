import { isClocheError } from './cloche-error.ts';

/** How long a known service may be unreachable, for example while it restarts. */
const MAX_OUTAGE_MS = 30_000;
/** Pause before the next request. Where time allows, requests also pause between their own attempts. */
const PAUSE_MS = 100;

/** Distinguishes a service that is briefly unreachable from one that was never reached. */
export class Outage {
  readonly #maxRetries: number;
  #hasResponded = false;
  #startedAt: number | undefined;

  /** @param maxRetries retries of each request; with 0, `shouldRetry` never waits */
  constructor(maxRetries: number) {
    this.#maxRetries = maxRetries;
  }

  /** Records that the service has responded. */
  noteResponse(): void {
    this.#hasResponded = true;
    this.#startedAt = undefined;
  }

  /**
   * Returns whether to try again: whether `error` means that a service that has responded before is unreachable or
   * unavailable, and whether the first such error was less than 30 seconds ago. The time counts from that error,
   * because a working service may also be silent for longer. Waits a short pause before it returns true.
   */
  async shouldRetry(error: unknown): Promise<boolean> {
    // A service that is about to stop responds with `unavailable` while other clients still have work in progress.
    if (!this.#hasResponded || this.#maxRetries === 0 || !isClocheError(error, 'unreachable', 'unavailable'))
      return false;
    this.#startedAt ??= performance.now();
    if (performance.now() - this.#startedAt >= MAX_OUTAGE_MS) return false;
    await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
    return true;
  }
}
