/** Duration of a lease, counted from its last renewal. The configuration can set another one. */
export const LEASE_MS = 30_000;
/** Time without a renewal of such a lease after which a server stops its work. */
export const FENCE_MS = fenceMsOf(LEASE_MS);

/** Milliseconds by which a timer may fire early, compared with `performance.now()`. */
const TIMER_MS = 10;

/**
 * Stops work of this server before other servers may take it over. The work is held by a lease: that of the server, or
 * a claim to one row. The fence closes when the lease was not renewed for two thirds of its duration, whether or not
 * the database answers, and opens with the next renewal. It uses a monotonic clock of this process, which continues
 * while the process is stopped.
 */
export class Fence {
  readonly #onClosed: () => void;
  readonly #elapsed: () => number;
  readonly #fenceMs: number;
  #renewedAt: number | undefined;
  #timer: NodeJS.Timeout | undefined;
  #wasTold = false;

  /** @param onClosed ends the work; called once each time that the fence closes */
  constructor(onClosed: () => void, elapsed = () => performance.now(), leaseMs = LEASE_MS) {
    this.#onClosed = onClosed;
    this.#elapsed = elapsed;
    this.#fenceMs = fenceMsOf(leaseMs);
  }

  /** Whether the fence is closed. It counts as open before the first renewal, because no work has begun yet. */
  get isClosed(): boolean {
    return this.#renewedAt !== undefined && this.#elapsed() - this.#renewedAt >= this.#fenceMs;
  }

  /** Returns the time to pass to `renewed`. Call it before the renewal is sent, because the answer may arrive late. */
  now(): number {
    return this.#elapsed();
  }

  /** Records a successful renewal. The lease runs from `sentAt`, when the request was sent. */
  renewed(sentAt: number): void {
    // After a stop of the process, this answer may arrive before the timer fires.
    this.look();
    this.#renewedAt = Math.max(sentAt, this.#renewedAt ?? sentAt);
    if (!this.isClosed) this.#wasTold = false;
    clearTimeout(this.#timer);
    // The answer may come so late that the fence is closed already.
    this.look();
    const leftMs = this.#renewedAt + this.#fenceMs - this.#elapsed();
    this.#timer = setTimeout(() => this.look(), leftMs + TIMER_MS).unref();
  }

  /** Returns whether the fence is closed. If so, the work has ended when this returns, before the timer fires. */
  look(): boolean {
    const { isClosed } = this;
    if (isClosed && !this.#wasTold) {
      this.#wasTold = true;
      this.#onClosed();
    }
    return isClosed;
  }

  stop(): void {
    clearTimeout(this.#timer);
  }
}

/** The fence that a lease opens at each renewal, and by which other code finds out whether the renewals failed. */
export type LeaseFence = Pick<Fence, 'look' | 'now' | 'renewed' | 'stop'>;

/** The fence of a lease that no other server can take. */
export const OPEN_FENCE: LeaseFence = {
  look: () => false,
  now: () => 0,
  renewed: () => undefined,
  stop: () => undefined,
};

/** Returns two thirds of the lease, so that the work has ended before another server may take it over. */
function fenceMsOf(leaseMs: number): number {
  return (leaseMs * 2) / 3;
}
