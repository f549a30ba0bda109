import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { dirname, join } from 'node:path';
import { createInterface, type Interface } from 'node:readline';

const HISTORY_LINES = 1000;

/** Lines that a person types, with the history of earlier ones. Lines typed ahead are kept. */
export class LineInput implements Disposable {
  readonly #lines: Interface;
  readonly #file: string;
  readonly #typed: string[] = [];
  readonly #onInterrupt: () => void;
  #waiting: ((line: string | undefined) => void) | undefined;
  #history: string[];
  #isClosed = false;

  /** @param onInterrupt called for each Ctrl-C while no line is read */
  constructor(name: string, onInterrupt: () => void) {
    this.#file = join(process.env.XDG_STATE_HOME || join(homedir(), '.local', 'state'), 'cloche', `history-${name}`);
    this.#onInterrupt = onInterrupt;
    this.#history = this.#readHistory();
    const { stdin: input, stdout: output } = process;
    this.#lines = createInterface({
      input,
      output,
      history: this.#history,
      historySize: HISTORY_LINES,
      removeHistoryDuplicates: true,
    });
    this.#lines.on('history', (history: string[]) => {
      this.#history = history;
    });
    // Restoring the mode of a terminal fails after its window was closed.
    this.#lines.on('error', () => undefined);
    this.#lines.on('line', (line) => this.#settle(line));
    this.#lines.on('close', () => {
      this.#isClosed = true;
      this.#waiting?.(undefined);
    });
    this.#lines.on('SIGINT', () => this.#interrupt());
  }

  /** Returns the next line; undefined at the end of the input, and `DISCARDED` after Ctrl-C. */
  async read(prompt: string): Promise<string | undefined> {
    const typed = this.#typed.shift();
    if (typed !== undefined || this.#isClosed) return typed;
    this.#lines.setPrompt(prompt);
    this.#lines.prompt();
    return new Promise((resolve) => {
      this.#waiting = (line) => {
        this.#waiting = undefined;
        resolve(line);
      };
    });
  }

  [Symbol.dispose](): void {
    this.#lines.close();
    try {
      mkdirSync(dirname(this.#file), { recursive: true, mode: 0o700 });
      writeFileSync(this.#file, `${this.#history.join('\n')}\n`, { mode: 0o600 });
    } catch {
      // A home that cannot be written has no history.
    }
  }

  #settle(line: string): void {
    if (this.#waiting) this.#waiting(line);
    else this.#typed.push(line);
  }

  #interrupt(): void {
    const waiting = this.#waiting;
    if (!waiting) {
      this.#onInterrupt();
      return;
    }
    process.stdout.write('\n');
    // Empties the line.
    this.#lines.write(null, { ctrl: true, name: 'e' });
    this.#lines.write(null, { ctrl: true, name: 'u' });
    waiting(DISCARDED);
  }

  #readHistory(): string[] {
    try {
      return readFileSync(this.#file, 'utf8').split('\n').filter(Boolean).slice(0, HISTORY_LINES);
    } catch {
      return [];
    }
  }
}

/** Stands for a line that Ctrl-C discarded; a line that is typed cannot contain a line feed. */
export const DISCARDED = '\n';
