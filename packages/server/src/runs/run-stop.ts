/** `timeout`: its time is up; `canceled`: its context or sandbox ended; `left`: nobody waits for the answer any more. */
export type StopReason = 'timeout' | 'canceled' | 'left';

/** Why a run is over before its agent said so. The first reason stays. Dispose it with the run. */
export class RunStop implements Disposable {
  readonly #controller = new AbortController();
  readonly #timer: NodeJS.Timeout;
  readonly #client: AbortSignal;
  readonly #leave = () => this.stop('left');
  #reason: StopReason | undefined;

  /** @param client aborts when nobody waits for the answer. */
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
