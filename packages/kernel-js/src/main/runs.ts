import { AsyncLocalStorage } from 'node:async_hooks';
import { Control } from '../messages.ts';

/** One execution of a cell. */
export interface Run {
  readonly number: number;
  /** Set when its value is known; what its timers do afterwards belongs to no run. */
  isOver: boolean;
}

/** A wait of stopped code ends with this, so that its `finally` blocks still run. */
export class InterruptedError extends Error {
  override readonly name = 'InterruptedError';
}

/**
 * Knows which run any piece of code belongs to, however many callbacks and awaits later. That is why what an
 * interrupted run still does is never taken for a later one's.
 */
export class Runs {
  readonly #storage = new AsyncLocalStorage<Run>();
  readonly #control: Int32Array;

  constructor(control: Int32Array) {
    this.#control = control;
  }

  enter<T>(run: Run, code: () => T): T {
    return this.#storage.run(run, code);
  }

  /** The run that the calling code belongs to, unless that one is over or was stopped. */
  current(): Run | undefined {
    const run = this.#storage.getStore();
    return run && !run.isOver && !this.#isStopped(run) ? run : undefined;
  }

  /** Whether the calling code belongs to a run that was stopped before it was over. */
  isInStoppedRun(): boolean {
    const run = this.#storage.getStore();
    return run !== undefined && !run.isOver && this.#isStopped(run);
  }

  #isStopped({ number }: Run): boolean {
    return number <= Atomics.load(this.#control, Control.stoppedRun);
  }
}
