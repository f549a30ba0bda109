import { setTimeout as delay } from 'node:timers/promises';

export interface EventuallyOptions {
  /** Milliseconds; 15 s unless given. */
  readonly within?: number;
  /** What is awaited, in words: a failure says it. */
  readonly because: string;
}

/** Waits until `condition` holds, for what no event announces. Throws an error that says what was awaited, and how long. */
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
