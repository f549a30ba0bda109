/** `timeout`: the time limit passed; `canceled`: the context or sandbox ended; `left`: the client left. */
export type StopReason = 'timeout' | 'canceled' | 'left';

/** Stops a run early and records why. The first reason is kept. Dispose it with the run. */
export class RunStop implements Disposable {
  readonly #controller = new AbortController();
  readonly #timer: NodeJS.Timeout;
  readonly #client: AbortSignal;
  readonly #leave = () => this.stop('left');
  #reason: StopReason | undefined;

  /** @param client aborts when the client no longer waits for the response */
  constructor(timeoutMs: number, client: AbortSignal) {
    this.#timer = setTimeout(() => this.stop('timeout'), Math.max(0, timeoutMs));
    this.#client = client;
    client.addEventListener('abort', this.#leave, { once: true });
    if (client.aborted) this.stop('left');
  }

  get reason(): StopReason | undefined {
    return this.#reason;
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  stop(reason: StopReason): void {
    if (this.#reason) return;
    this.#reason = reason;
    this.#controller.abort();
  }

  [Symbol.dispose](): void {
    clearTimeout(this.#timer);
    this.#client.removeEventListener('abort', this.#leave);
  }
}
