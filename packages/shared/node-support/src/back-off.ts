import { setTimeout as delay } from 'node:timers/promises';

/** Resolves after `ms` or when the signal aborts, whichever is first; never rejects. */
export async function pause(ms: number, signal: AbortSignal, { ref = true } = {}): Promise<void> {
  await delay(ms, undefined, { signal, ref }).catch(() => undefined);
}

export interface BackOffOptions {
  readonly firstMs: number;
  readonly longestMs: number;
}

/** Pauses between attempts: each is twice as long as the previous one, up to a limit. */
export class BackOff {
  readonly #options: BackOffOptions;
  #nextMs: number;

  constructor(options: BackOffOptions) {
    this.#options = options;
    this.#nextMs = options.firstMs;
  }

  /** Returns the length of the next pause in milliseconds. */
  next(): number {
    const ms = this.#nextMs;
    this.#nextMs = Math.min(ms * 2, this.#options.longestMs);
    return ms;
  }

  /** Begins again with the first pause, after a success. */
  reset(): void {
    this.#nextMs = this.#options.firstMs;
  }

  /**
   * Makes the next pause; resolves early when the signal aborts. A pause without `ref` does not keep the process alive.
   */
  async pause(signal: AbortSignal, { ref = true } = {}): Promise<void> {
    await pause(this.next(), signal, { ref });
  }
}
