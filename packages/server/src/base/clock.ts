/** Time, injected so that no test sleeps. */
export interface Clock {
  /** Milliseconds since the epoch. */
  now(): number;
}

export const systemClock: Clock = { now: () => Date.now() };

export function timestamp(ms: number): string {
  return new Date(ms).toISOString();
}
