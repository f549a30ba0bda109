const ENTER = '\u001b[?1049h\u001b[?25l';
const LEAVE = '\u001b[?25h\u001b[?1049l';
const HOME = '\u001b[H';
const CLEAR_REST_OF_LINE = '\u001b[K';
const CLEAR_BELOW = '\u001b[J';

/** Sequences of keys, and single characters. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: escape sequences of keys
const KEYS = /\u001b\[[\d;]*[A-Za-z~]|\u001bO[A-Z]|[\s\S]/gu;
const NAMES: Readonly<Record<string, string>> = {
  '\u001b[A': 'up',
  '\u001bOA': 'up',
  '\u001b[B': 'down',
  '\u001bOB': 'down',
  '\r': 'enter',
  '\n': 'enter',
  '\u001b': 'escape',
  '\u007f': 'backspace',
  '\b': 'backspace',
  // In raw mode the terminal makes no signal of Ctrl-C.
  '\u0003': 'interrupt',
};

/**
 * Shows frames in the terminal's alternate screen, each replacing the last one, and passes on keys: characters as they
 * are, other keys by name. Disposing restores the terminal, and so does the end of the process.
 */
export class LiveScreen implements Disposable {
  readonly #onInput: (input: Buffer) => void;
  readonly #restore = () => this[Symbol.dispose]();
  readonly #isKeyboard = process.stdin.isTTY === true;
  #isOpen = true;

  constructor(onKey: (key: string) => void) {
    this.#onInput = (input) => {
      for (const key of keysIn(input.toString())) onKey(key);
    };
    process.once('exit', this.#restore);
    if (this.#isKeyboard) {
      process.stdin.setRawMode(true);
      // A closed window ends the program by its signal.
      process.stdin.on('data', this.#onInput).on('error', () => undefined);
    }
    process.stdout.write(ENTER);
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
    if (!this.#isOpen) return;
    this.#isOpen = false;
    process.off('exit', this.#restore);
    process.stdout.write(LEAVE);
    if (!this.#isKeyboard) return;
    process.stdin.off('data', this.#onInput);
    process.stdin.setRawMode(false);
    // An open standard input would keep the process alive.
    process.stdin.destroy();
  }
}

/** Returns the keys of an input; leaves out those without a name. */
export function keysIn(input: string): string[] {
  return [...input.matchAll(KEYS)]
    .map(([key]) => NAMES[key] ?? key)
    .filter((key) => Object.values(NAMES).includes(key) || /^[^\p{Cc}]$/u.test(key));
}
