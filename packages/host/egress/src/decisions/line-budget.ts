/** Most log lines of one sandbox in one window. Further ones are only counted. */
export const LINES_A_WINDOW = 100;
export const WINDOW_MS = 5000;

/**
 * Limits the log lines of each sandbox, so that a sandbox can fill neither the disk nor the list for the operator. At
 * the end of a window, `onSuppressed` is called with the number of suppressed lines of each sandbox.
 */
export class LineBudget {
  readonly #lines = new Map<string, number>();
  readonly #onSuppressed: (sandboxId: string, count: number) => void;
  readonly #linesAWindow: number;
  #window: NodeJS.Timeout | undefined;

  constructor(onSuppressed: (sandboxId: string, count: number) => void, linesAWindow = LINES_A_WINDOW) {
    this.#onSuppressed = onSuppressed;
    this.#linesAWindow = linesAWindow;
  }

  /** Counts a line. Returns whether it may be written. */
  take(sandboxId: string): boolean {
    this.#window ??= setTimeout(() => this.endWindow(), WINDOW_MS).unref();
    const lines = (this.#lines.get(sandboxId) ?? 0) + 1;
    this.#lines.set(sandboxId, lines);
    return lines <= this.#linesAWindow;
  }

  /** Ends the window, which also happens by a timer. Idempotent. */
  endWindow(): void {
    clearTimeout(this.#window);
    this.#window = undefined;
    const ended = [...this.#lines];
    this.#lines.clear();
    for (const [sandboxId, lines] of ended) {
      if (lines > this.#linesAWindow) this.#onSuppressed(sandboxId, lines - this.#linesAWindow);
    }
  }
}
