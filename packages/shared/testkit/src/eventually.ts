import { setTimeout as delay } from 'node:timers/promises';

/** How many times longer than on an ordinary machine tests wait. The virtual machine of `npm run test:vm` sets it. */
export const SLOWNESS = Number(process.env.CLOCHE_TEST_SLOWNESS ?? 1);

export interface EventuallyOptions {
  /** Milliseconds on an ordinary machine; 60 s by default. */
  readonly within?: number;
  /** The awaited condition in words, for the error message; its source by default. */
  readonly because?: string;
}

/** Polls until `condition` holds. For conditions without an event. Throws if it does not hold in time. */
export async function eventually(
  condition: () => Promise<boolean> | boolean,
  { within = 60_000, because = String(condition) }: EventuallyOptions = {},
): Promise<void> {
  const deadline = performance.now() + within * SLOWNESS;
  while (!(await condition())) {
    if (performance.now() > deadline) throw new Error(`not within ${within * SLOWNESS} ms: ${because}`);
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
  const deadline = performance.now() + within * SLOWNESS;
  for (let earlier = await figure(); ; ) {
    await delay(forMs);
    const now = await figure();
    if (now === earlier) return now;
    if (performance.now() > deadline)
      throw new Error(`still changes after ${within * SLOWNESS} ms: ${earlier}, then ${now}`);
    earlier = now;
  }
}
