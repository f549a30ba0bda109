/** Lines a sandbox may have in the log in one window; further ones are counted. */
export const LINES_A_WINDOW = 100;
export const WINDOW_MS = 5000;

/**
 * Bounds what one sandbox can have written, so that it fills neither a disk nor what is kept for the operator. When a
 * window ends, `onSuppressed` hears of each sandbox how many there were beyond it.
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

  /** Whether this one may be written. */
  take(sandboxId: string): boolean {
    this.#window ??= setTimeout(() => this.endWindow(), WINDOW_MS).unref();
    const lines = (this.#lines.get(sandboxId) ?? 0) + 1;
    this.#lines.set(sandboxId, lines);
    return lines <= this.#linesAWindow;
  }

  /** Begins anew, as it does by itself. Idempotent. */
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
