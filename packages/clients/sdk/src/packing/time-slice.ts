import { setImmediate } from 'node:timers/promises';

const SLICE_MS = 5;

/** Makes a long series of synchronous calls yield to other work of the process. */
export class TimeSlice {
  #since = performance.now();

  /** Call between steps. Yields to the event loop if the slice is over. */
  async yieldIfOver(): Promise<void> {
    if (performance.now() - this.#since < SLICE_MS) return;
    await setImmediate();
    this.#since = performance.now();
  }
}
