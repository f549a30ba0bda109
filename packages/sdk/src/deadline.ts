/** The longest that a timer takes; more would fire at once. */
const LONGEST_MS = 2 ** 31 - 1;

/** A signal that fires when `timeoutMs` have passed or `outer` aborts. To be closed, so that no timer outlives it. */
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

  /** Whether time ran out, as opposed to an abort by the caller. */
  get passed(): boolean {
    return this.#passed;
  }

  get remainingMs(): number {
    return Math.max(0, this.#endsAt - performance.now());
  }

  /** Gives the whole time again. */
  restart(): void {
    this.pause();
    this.#endsAt = performance.now() + this.timeoutMs;
    this.#timer = setTimeout(() => {
      this.#passed = true;
      this.#controller.abort();
    }, this.timeoutMs);
  }

  /** Lets no time pass until the next restart. */
  pause(): void {
    clearTimeout(this.#timer);
  }

  /** Rejects when the deadline passes or the caller aborts first. */
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

  /** Ends whatever still listens to the signal. */
  close(): void {
    this.pause();
    this.#outer?.removeEventListener('abort', this.#abort);
    this.#controller.abort();
  }

  #abort = (): void => this.#controller.abort(this.#outer?.reason);
}
