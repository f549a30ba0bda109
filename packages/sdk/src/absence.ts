import { isClocheError } from './cloche-error.ts';

/** How long a service that was there may be away, as while it starts anew. */
const AWAY_MS = 30_000;

/** Tells a service that is away for a moment from one that is not there. */
export class Absence {
  readonly #maxRetries: number;
  #heardAt: number | undefined;

  /** @param maxRetries of each request meanwhile; who wants none waits for nobody */
  constructor(maxRetries: number) {
    this.#maxRetries = maxRetries;
  }

  /** The service was just heard of. */
  end(): void {
    this.#heardAt = performance.now();
  }

  /** Whether `error` says that nobody answers where somebody did less than half a minute ago. */
  mayEnd(error: unknown): boolean {
    if (this.#heardAt === undefined || this.#maxRetries === 0) return false;
    return isClocheError(error, 'unreachable') && performance.now() - this.#heardAt < AWAY_MS;
  }
}
