import { setImmediate } from 'node:timers/promises';

/** What else the agent has to do waits no longer for a walk through a tree. */
const TURN_MS = 5;

/** Lets a long series of synchronous calls give way to others. */
export class Pace {
  #since = performance.now();

  /** Between two calls, or a few. */
  async step(): Promise<void> {
    if (performance.now() - this.#since < TURN_MS) return;
    await setImmediate();
    this.#since = performance.now();
  }
}
