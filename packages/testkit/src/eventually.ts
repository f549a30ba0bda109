import { setTimeout as delay } from 'node:timers/promises';

export interface EventuallyOptions {
  /** Milliseconds; 15 s by default. */
  readonly within?: number;
  /** The awaited condition in words, for the error message. */
  readonly because: string;
}

/** Polls until `condition` holds. For conditions without an event. Throws if it does not hold in time. */
export async function eventually(
  condition: () => Promise<boolean> | boolean,
  { within = 15_000, because }: EventuallyOptions,
): Promise<void> {
  const deadline = performance.now() + within;
  while (!(await condition())) {
    if (performance.now() > deadline) throw new Error(`not within ${within} ms: ${because}`);
    await delay(5);
  }
}
