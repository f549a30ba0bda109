/** Window in which lines are counted. */
const WINDOW_MS = 60_000;

export interface LineLimitOptions {
  /** Most lines in a window of a minute. */
  readonly most: number;
  /** Called in a later window with the number of lines that had no room. */
  readonly onLeftOut: (lines: number) => void;
  readonly now?: () => number;
}

/** Limits the log lines that any client can cause, so that none fills the log. */
export class LineLimit {
  readonly #most: number;
  readonly #onLeftOut: (lines: number) => void;
  readonly #now: () => number;
  #windowStart: number;
  #written = 0;
  #leftOut = 0;

  constructor({ most, onLeftOut, now = () => performance.now() }: LineLimitOptions) {
    this.#most = most;
    this.#onLeftOut = onLeftOut;
    this.#now = now;
    this.#windowStart = now();
  }

  /** Returns whether the window has room for a line, which it then takes. */
  hasRoom(): boolean {
    const now = this.#now();
    if (now - this.#windowStart >= WINDOW_MS) {
      if (this.#leftOut > 0) this.#onLeftOut(this.#leftOut);
      this.#windowStart = now;
      this.#written = 0;
      this.#leftOut = 0;
    }
    if (this.#written < this.#most) {
      this.#written += 1;
      return true;
    }
    this.#leftOut += 1;
    return false;
  }
}
