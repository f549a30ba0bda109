const SECOND_MS = 1000;
const MINUTE_MS = 60 * SECOND_MS;
const HOUR_MS = 60 * MINUTE_MS;

/** Failures over this time, with no success, end the attempts. */
export const FAILING_MAX_MS = 5 * 24 * HOUR_MS;
/** Every minute, for an hour. */
const MINUTES = 60;
const SOON_MS = [5 * SECOND_MS, 30 * SECOND_MS];
const LATER_MS = [5 * MINUTE_MS, 30 * MINUTE_MS, 2 * HOUR_MS, 5 * HOUR_MS, 10 * HOUR_MS];
const LAST_MS = 24 * HOUR_MS;
/**
 * The long pauses are extended by a random share of at most this, so that deliveries that failed together are not all
 * retried together.
 */
const JITTER = 0.1;

/** Returns how long to wait after the failure number `failures`, which counts from 1. `random` is from 0 to 1. */
export function retryDelay(failures: number, random: number): number {
  const soon = SOON_MS[failures - 1];
  if (soon !== undefined) return soon;
  const minutes = failures - SOON_MS.length;
  if (minutes <= MINUTES) return MINUTE_MS;
  const delay = LATER_MS[minutes - MINUTES - 1] ?? LAST_MS;
  return Math.round(delay * (1 + JITTER * random));
}

export interface Failing {
  /** Number of failures so far. */
  readonly failures: number;
  /** Time of the first failure. */
  readonly since: number;
}

/** Returns when to try again, or undefined after five days of failures. */
export function nextAttempt({ failures, since }: Failing, now: number, random: number): number | undefined {
  const last = since + FAILING_MAX_MS;
  return now >= last ? undefined : Math.min(now + retryDelay(failures, random), last);
}
