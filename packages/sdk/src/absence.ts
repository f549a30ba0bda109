import { isClocheError } from './cloche-error.ts';

/** How long a service that was there may be away, as while it starts anew. */
const AWAY_MS = 30_000;

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
   * Whether `error` says that nobody answers where somebody did, and for less than half a minute: from the first time that
   * nobody did, as a service that is there may have nothing to say for longer.
   */
  mayEnd(error: unknown): boolean {
    if (!this.#wasThere || this.#maxRetries === 0 || !isClocheError(error, 'unreachable')) return false;
    this.#awaySince ??= performance.now();
    return performance.now() - this.#awaySince < AWAY_MS;
  }
}
