import { setImmediate } from 'node:timers/promises';

const SLICE_MS = 5;

/** Resolves when the loop that waits last has its turn. */
let lastTurn = Promise.resolve();

/**
 * Makes a long loop yield to other work of the process. Loops that wait go on one in a turn of the event loop: however
 * many run at once, they block it for one slice at a time.
 */
export class TimeSlice {
  #since = performance.now();

  /** Whether the slice is over. In a loop of many short steps, it saves the promise that `yieldIfOver` returns. */
  get isOver(): boolean {
    return performance.now() - this.#since >= SLICE_MS;
  }

  /** Call between steps. Yields to the event loop if the slice is over. */
  async yieldIfOver(): Promise<void> {
    if (!this.isOver) return;
    lastTurn = lastTurn.then(() => setImmediate());
    await lastTurn;
    this.#since = performance.now();
  }
}
