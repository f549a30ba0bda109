import { setImmediate } from 'node:timers/promises';

/** Milliseconds that a walk through a tree runs before it yields to other work of the agent. */
const TURN_MS = 5;

/** Makes a long series of synchronous calls yield to other work. */
export class TimeSlice {
  #since = performance.now();

  /** Call between steps. Yields to the event loop if the turn is over. */
  async yieldIfOver(): Promise<void> {
    if (performance.now() - this.#since < TURN_MS) return;
    await setImmediate();
    this.#since = performance.now();
  }
}
