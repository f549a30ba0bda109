import { AppError } from '../app-error.ts';

/** What is left to handlers whose signal has aborted, to undo what they began. */
const UNWIND_MS = 2_000;

/** The client closed the connection before it had its answer. */
export class ClientGone extends Error {
  override readonly name = 'ClientGone';

  constructor() {
    super('the client closed the connection');
  }
}

/** Follows the requests that are being executed, so that a stopping server can end them in order. */
export class InFlight {
  readonly #interruptible = new Set<AbortController>();
  readonly #others = new Set<AbortController>();
  #isDraining = false;
  #changed: (() => void) | undefined;

  get size(): number {
    return this.#interruptible.size + this.#others.size;
  }

  get isDraining(): boolean {
    return this.#isDraining;
  }

  /**
   * The signal of the request aborts when it has to end; `leave` when it has.
   *
   * @param isInterruptible loses nothing by ending early: a stream, or a wait for what somebody else does.
   */
  enter(isInterruptible: boolean): AbortController {
    const controller = new AbortController();
    (isInterruptible ? this.#interruptible : this.#others).add(controller);
    // Its headers came before the stop, its body after.
    if (isInterruptible && this.#isDraining) controller.abort(stopping());
    return controller;
  }

  leave(controller: AbortController): void {
    this.#interruptible.delete(controller);
    this.#others.delete(controller);
    this.#changed?.();
  }

  /** Ends streams and waits at once and everything else after `graceMs`; resolves when nothing runs, or soon after. */
  async drain(graceMs: number): Promise<void> {
    this.#isDraining = true;
    for (const controller of this.#interruptible) controller.abort(stopping());
    await this.#untilEmpty(graceMs);
    for (const controller of this.#others) controller.abort(stopping());
    await this.#untilEmpty(UNWIND_MS);
  }

  #untilEmpty(withinMs: number): Promise<void> {
    if (this.size === 0) return Promise.resolve();
    return new Promise((resolve) => {
      const finish = () => {
        clearTimeout(timer);
        this.#changed = undefined;
        resolve();
      };
      const timer = setTimeout(finish, withinMs);
      this.#changed = () => {
        if (this.size === 0) finish();
      };
    });
  }
}

/** What a stopping server tells everybody. */
export function stopping(): AppError {
  return new AppError('unavailable', 'The service is stopping; send the request again in a moment.');
}
