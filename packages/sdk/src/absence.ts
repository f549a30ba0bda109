import { isClocheError } from './cloche-error.ts';

/** How long a service that was there may be away, as while it starts anew. */
const AWAY_MS = 30_000;
/** Requests have pauses of their own between their attempts, where they have the time. */
const PAUSE_MS = 100;

/** Tells a service that is away for a moment from one that is not there. */
export class Absence {
  readonly #maxRetries: number;
  #wasThere = false;
  #awaySince: number | undefined;

  /** @param maxRetries of each request meanwhile; who wants none waits for nobody */
  constructor(maxRetries: number) {
    this.#maxRetries = maxRetries;
  }

  /** The service was heard of. */
  end(): void {
    this.#wasThere = true;
    this.#awaySince = undefined;
  }

  /**
   * Whether `error` says that the service is away where it was there, and for less than half a minute: from the first time
   * that it says so, as a service that is there may have nothing to say for longer. Resolves when it may be asked again.
   */
  async mayEnd(error: unknown): Promise<boolean> {
    // One that is about to stop answers that it is not available, for as long as others still run something there.
    if (!this.#wasThere || this.#maxRetries === 0 || !isClocheError(error, 'unreachable', 'unavailable')) return false;
    this.#awaySince ??= performance.now();
    if (performance.now() - this.#awaySince >= AWAY_MS) return false;
    await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
    return true;
  }
}
