import { setImmediate } from 'node:timers/promises';

/** Milliseconds that a walk through a tree runs before other work of the agent gets its turn. */
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
