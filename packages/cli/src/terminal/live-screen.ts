const ENTER = '\u001b[?1049h\u001b[?25l';
const LEAVE = '\u001b[?25h\u001b[?1049l';
const HOME = '\u001b[H';
const CLEAR_REST_OF_LINE = '\u001b[K';
const CLEAR_BELOW = '\u001b[J';
/** Ctrl-C, Escape and Q. In raw mode the terminal makes no signal of Ctrl-C. */
const QUIT_KEYS = new Set(['\u0003', '\u001b', 'q', 'Q']);

/**
 * Shows frames in a screen of their own, each in place of the one before, until a key quits. Disposing restores the
 * terminal as it was.
 */
export class LiveScreen implements Disposable {
  readonly #quit = new AbortController();
  readonly #onKey = (key: Buffer) => {
    if (QUIT_KEYS.has(key.toString())) this.#quit.abort();
  };
  readonly #isKeyboard = process.stdin.isTTY === true;

  constructor() {
    if (this.#isKeyboard) {
      process.stdin.setRawMode(true);
      process.stdin.on('data', this.#onKey);
    }
    process.stdout.write(ENTER);
  }

  /** Aborts when a key quits. */
  get quit(): AbortSignal {
    return this.#quit.signal;
  }

  /** Columns and rows of the terminal now. */
  get size(): { columns: number; rows: number } {
    return { columns: process.stdout.columns || 80, rows: process.stdout.rows || 24 };
  }

  /** Replaces the frame. Leaves out lines that do not fit; no line may be wider than the terminal. */
  draw(lines: readonly string[]): void {
    const shown = lines.slice(0, this.size.rows).map((line) => line + CLEAR_REST_OF_LINE);
    process.stdout.write(HOME + shown.join('\r\n') + CLEAR_BELOW);
  }

  [Symbol.dispose](): void {
    process.stdout.write(LEAVE);
    if (!this.#isKeyboard) return;
    process.stdin.off('data', this.#onKey);
    process.stdin.setRawMode(false);
    // An open standard input would keep the process alive.
    process.stdin.destroy();
  }
}
