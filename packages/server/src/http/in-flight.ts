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
  readonly #streams = new Set<AbortController>();
  readonly #others = new Set<AbortController>();
  #isDraining = false;
  #changed: (() => void) | undefined;

  get size(): number {
    return this.#streams.size + this.#others.size;
  }

  get isDraining(): boolean {
    return this.#isDraining;
  }

  /** The signal of the request aborts when it has to end; `leave` when it has. */
  enter(kind: 'json' | 'stream'): AbortController {
    const controller = new AbortController();
    (kind === 'stream' ? this.#streams : this.#others).add(controller);
    // Its headers came before the stop, its body after.
    if (kind === 'stream' && this.#isDraining) controller.abort(stopping());
    return controller;
  }

  leave(controller: AbortController): void {
    this.#streams.delete(controller);
    this.#others.delete(controller);
    this.#changed?.();
  }

  /** Ends streams at once and everything else after `graceMs`; resolves when nothing runs, or soon after. */
  async drain(graceMs: number): Promise<void> {
    this.#isDraining = true;
    for (const controller of this.#streams) controller.abort(stopping());
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
