import { setTimeout as delay } from 'node:timers/promises';

export interface EventuallyOptions {
  /** Milliseconds; 60 s by default. */
  readonly within?: number;
  /** The awaited condition in words, for the error message. */
  readonly because: string;
}

/** Polls until `condition` holds. For conditions without an event. Throws if it does not hold in time. */
export async function eventually(
  condition: () => Promise<boolean> | boolean,
  { within = 60_000, because }: EventuallyOptions,
): Promise<void> {
  const deadline = performance.now() + within;
  while (!(await condition())) {
    if (performance.now() > deadline) throw new Error(`not within ${within} ms: ${because}`);
    await delay(5);
  }
}

export interface SettledOptions {
  /** Milliseconds without a change after which the figure counts as settled. */
  readonly forMs: number;
  /** Milliseconds; 60 s by default. */
  readonly within?: number;
}

/** Resolves with `figure()` once it has not changed for `forMs`. Throws if it still changes after `within`. */
export async function settled(
  figure: () => Promise<number> | number,
  { forMs, within = 60_000 }: SettledOptions,
): Promise<number> {
  const deadline = performance.now() + within;
  for (let earlier = await figure(); ; ) {
    await delay(forMs);
    const now = await figure();
    if (now === earlier) return now;
    if (performance.now() > deadline) throw new Error(`still changes after ${within} ms: ${earlier}, then ${now}`);
    earlier = now;
  }
}
