import { Turns } from '../../base/turns.ts';

/** What the lines under way of one sandbox may hold together before one of them has to ask. */
const SHARED_BYTES = 8 * 1024 * 1024;
/** Lines that may hold more, in the whole server. */
const AT_ONCE = 8;
/** How long such a line may be under way. An honest agent sends the longest there is in a fraction of that. */
const TIME_LIMIT_MS = 10_000;

/** A long line that did not end in time. */
export class LineOverdue extends Error {
  override readonly name = 'LineOverdue';

  constructor(timeLimitMs: number) {
    super(`a long line that did not end within ${timeLimitMs} ms`);
  }
}

/**
 * What lines that are not whole yet may hold of the server's memory. The short ones of a sandbox share a small store; a
 * line that needs more waits for its turn, first in its sandbox and then in the server, and then has to end in time.
 */
export class LongLines {
  readonly turns: Turns;
  readonly timeLimitMs: number;

  constructor({ atOnce = AT_ONCE, timeLimitMs = TIME_LIMIT_MS } = {}) {
    this.turns = new Turns(atOnce);
    this.timeLimitMs = timeLimitMs;
  }
}

/** The share of one sandbox. */
export class SandboxLines {
  readonly #all: LongLines;
  readonly #turns = new Turns(1);
  #sharedBytes = 0;

  constructor(all: LongLines) {
    this.#all = all;
  }

  /** For one stream of lines, which disposes of it. `onOverdue` is told when its long line has had its time. */
  open(signal: AbortSignal, onOverdue: (error: LineOverdue) => void): LineStore {
    return new LineStore({
      share: (bytes) => {
        if (bytes > 0 && this.#sharedBytes + bytes > SHARED_BYTES) return false;
        this.#sharedBytes += bytes;
        return true;
      },
      takeTurn: () => this.#takeTurn(signal, onOverdue),
    });
  }

  async #takeTurn(signal: AbortSignal, onOverdue: (error: LineOverdue) => void): Promise<() => void> {
    const { turns, timeLimitMs } = this.#all;
    await this.#turns.take(signal);
    try {
      await turns.take(signal);
    } catch (error) {
      this.#turns.give();
      throw error;
    }
    const timer = setTimeout(() => onOverdue(new LineOverdue(timeLimitMs)), timeLimitMs);
    return () => {
      clearTimeout(timer);
      turns.give();
      this.#turns.give();
    };
  }
}

interface LineStoreOptions {
  /** Takes so much of the sandbox's store, or gives it back when negative; false when there is not so much. */
  share: (bytes: number) => boolean;
  takeTurn: () => Promise<() => void>;
}

/** What one stream holds of a line that is not whole yet. */
export class LineStore implements Disposable {
  readonly #options: LineStoreOptions;
  #sharedBytes = 0;
  #giveTurn: (() => void) | undefined;

  constructor(options: LineStoreOptions) {
    this.#options = options;
  }

  /** Undefined when there is room for `bytes` more, else a promise of it. */
  hold(bytes: number): Promise<void> | undefined {
    if (this.#giveTurn) return undefined;
    if (!this.#options.share(bytes)) return this.#takeTurn();
    this.#sharedBytes += bytes;
    return undefined;
  }

  /** The line is whole. Idempotent. */
  release(): void {
    if (this.#sharedBytes > 0) this.#options.share(-this.#sharedBytes);
    this.#sharedBytes = 0;
    this.#giveTurn?.();
    this.#giveTurn = undefined;
  }

  [Symbol.dispose](): void {
    this.release();
  }

  async #takeTurn(): Promise<void> {
    this.#giveTurn = await this.#options.takeTurn();
  }
}
