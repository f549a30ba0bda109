import { AsyncLocalStorage } from 'node:async_hooks';
import { Control } from '../messages.ts';

/** One execution of a cell. */
export interface Run {
  readonly number: number;
  /** Set when the cell's value is known. Later output, for example of its timers, does not belong to the run. */
  isOver: boolean;
}

/** Thrown by awaits in stopped code, so that its `finally` blocks still run. */
export class InterruptedError extends Error {
  override readonly name = 'InterruptedError';
}

/**
 * Knows which run the executing code belongs to, across callbacks and awaits. So output of an interrupted run is never
 * attributed to a later one.
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

  /** Returns the run of the calling code, unless the run is over or was stopped. */
  current(): Run | undefined {
    const run = this.#storage.getStore();
    return run && !run.isOver && !this.#isStopped(run) ? run : undefined;
  }

  /** Returns whether the calling code belongs to a run that was stopped before it was over. */
  isInStoppedRun(): boolean {
    const run = this.#storage.getStore();
    return run !== undefined && !run.isOver && this.#isStopped(run);
  }

  #isStopped({ number }: Run): boolean {
    return number <= Atomics.load(this.#control, Control.stoppedRun);
  }
}
