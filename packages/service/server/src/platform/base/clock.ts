/** Time, injected so that no test sleeps. */
export interface Clock {
  /** Milliseconds since the epoch. */
  now(): number;
}

export const systemClock: Clock = { now: () => Date.now() };

/**
 * Whether less than `ms` have passed since `at`. A time in the future, as there is after the clock was set back, counts as
 * long ago, so that nothing waits until the clock has caught up.
 */
export function isWithin(ms: number, at: number, now: number): boolean {
  return at <= now && now - at < ms;
}

export function timestamp(ms: number): string {
  return new Date(ms).toISOString();
}
