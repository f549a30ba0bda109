/** Longest delay that a timer supports; a longer one would fire at once. */
const LONGEST_MS = 2 ** 31 - 1;

/**
 * A signal that aborts when `timeoutMs` has passed or `outer` aborts. Call `close`, so that its timer does not outlive
 * it.
 */
export class Deadline {
  readonly timeoutMs: number;
  readonly #controller = new AbortController();
  readonly #outer: AbortSignal | undefined;
  #endsAt = 0;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #passed = false;

  constructor(timeoutMs: number, outer?: AbortSignal | undefined) {
    this.timeoutMs = Math.min(timeoutMs, LONGEST_MS);
    this.#outer = outer;
    outer?.addEventListener('abort', this.#abort);
    if (outer?.aborted) this.#abort();
    this.restart();
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** Whether the time ran out; false after an abort by the caller. */
  get passed(): boolean {
    return this.#passed;
  }

  get remainingMs(): number {
    return Math.max(0, this.#endsAt - performance.now());
  }

  /** Restarts the full time. */
  restart(): void {
    this.pause();
    this.#endsAt = performance.now() + this.timeoutMs;
    this.#timer = setTimeout(() => {
      this.#passed = true;
      this.#controller.abort();
    }, this.timeoutMs);
  }

  /** Stops the time until the next restart. */
  pause(): void {
    clearTimeout(this.#timer);
  }

  /** Resolves after `ms`. Rejects if the deadline passes or the caller aborts first. */
  async sleep(ms: number): Promise<void> {
    this.signal.throwIfAborted();
    await new Promise<void>((resolve) => {
      const wake = () => {
        clearTimeout(timer);
        this.signal.removeEventListener('abort', wake);
        resolve();
      };
      const timer = setTimeout(wake, ms);
      this.signal.addEventListener('abort', wake);
    });
    this.signal.throwIfAborted();
  }

  /** Settles as `work` does. Rejects at once if the deadline passes or the caller aborts first; `work` goes on. */
  async race<Result>(work: Promise<Result>): Promise<Result> {
    this.signal.throwIfAborted();
    let stop = () => {};
    const aborted = new Promise<never>((_, reject) => {
      stop = () => reject(this.signal.reason);
      this.signal.addEventListener('abort', stop, { once: true });
    });
    try {
      return await Promise.race([work, aborted]);
    } finally {
      this.signal.removeEventListener('abort', stop);
    }
  }

  /** Stops the timer and aborts the signal. */
  close(): void {
    this.pause();
    this.#outer?.removeEventListener('abort', this.#abort);
    this.#controller.abort();
  }

  #abort = (): void => this.#controller.abort(this.#outer?.reason);
}
