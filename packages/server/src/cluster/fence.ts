/** Time of a lease from its last renewal, unless the configuration sets another one. */
export const LEASE_MS = 30_000;
/** Time without a renewal of such a lease after which a server stops its work. */
export const FENCE_MS = fenceMsOf(LEASE_MS);

/** How much earlier than this clock a timer may fire. */
const TIMER_MS = 10;

/**
 * Closes when the lease of this server was not renewed for so long that other servers may soon count it as dead, and opens
 * with the next renewal. Its time is that of this process alone, which nobody sets, and counts while the process is stopped.
 */
export class Fence {
  readonly #onClosed: () => void;
  readonly #elapsed: () => number;
  readonly #fenceMs: number;
  #renewedAt: number | undefined;
  #timer: NodeJS.Timeout | undefined;
  #wasTold = false;

  /** @param onClosed ends the work of this server; called once each time that the fence closes */
  constructor(onClosed: () => void, elapsed = () => performance.now(), leaseMs = LEASE_MS) {
    this.#onClosed = onClosed;
    this.#elapsed = elapsed;
    this.#fenceMs = fenceMsOf(leaseMs);
  }

  /** Open until the first renewal, when the server does not serve yet. */
  get isClosed(): boolean {
    return this.#renewedAt !== undefined && this.#elapsed() - this.#renewedAt >= this.#fenceMs;
  }

  /** Time to pass to `renewed`: take it before the renewal is sent, because it may arrive late. */
  now(): number {
    return this.#elapsed();
  }

  renewed(sentAt: number): void {
    // A process that was stopped comes back with the answer before the timer.
    this.look();
    this.#renewedAt = Math.max(sentAt, this.#renewedAt ?? sentAt);
    if (!this.isClosed) this.#wasTold = false;
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.look(), this.#fenceMs + TIMER_MS).unref();
  }

  /** Ends the work of this server if the fence has closed. */
  look(): void {
    if (!this.isClosed || this.#wasTold) return;
    this.#wasTold = true;
    this.#onClosed();
  }

  stop(): void {
    clearTimeout(this.#timer);
  }
}

/** Ends before the lease by a third of it, so that the work has ended before another server may take it. */
function fenceMsOf(leaseMs: number): number {
  return (leaseMs * 2) / 3;
}
