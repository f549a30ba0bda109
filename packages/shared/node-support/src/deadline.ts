import { onAbort, orAbort } from './abort.ts';

/** The cause of a wait's end: its time limit, the signal of its caller, or the owner of the deadline. */
export type DeadlineEnd = 'timeout' | 'caller' | 'canceled';

/** Longest delay of a timer; a longer one would fire at once. */
const LONGEST_MS = 2 ** 31 - 1;

/**
 * Bounds a wait by a time limit, by its caller's signal and by its owner. `signal` is what each step of the wait takes;
 * `endedBy` tells afterwards why it aborted, since the first end is kept. Create it with `using`: its timer and its
 * listener end with the function that waits.
 */
export class Deadline implements Disposable {
  readonly #controller = new AbortController();
  readonly #timer: NodeJS.Timeout;
  readonly #caller: Disposable | undefined;
  #endedBy: DeadlineEnd | undefined;

  /** @param caller aborts when the caller no longer waits. Its reason becomes the reason of `signal`. */
  constructor(ms: number, caller?: AbortSignal) {
    this.#timer = setTimeout(() => this.end('timeout'), Math.min(Math.max(0, ms), LONGEST_MS));
    this.#caller = caller && onAbort(caller, () => this.end('caller', caller.reason));
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** Undefined while the wait may go on. */
  get endedBy(): DeadlineEnd | undefined {
    return this.#endedBy;
  }

  /** Aborts `signal`. Does nothing if it has aborted already. */
  end(by: DeadlineEnd, reason?: unknown): void {
    if (this.#endedBy) return;
    this.#endedBy = by;
    this.#controller.abort(reason);
  }

  /** Settles as `promise` does, or rejects with the signal's reason at the end of the wait. */
  race<T>(promise: Promise<T>): Promise<T> {
    return orAbort(promise, this.signal);
  }

  /** Stops the time limit and ignores the caller from now on. */
  [Symbol.dispose](): void {
    clearTimeout(this.#timer);
    this.#caller?.[Symbol.dispose]();
  }
}
