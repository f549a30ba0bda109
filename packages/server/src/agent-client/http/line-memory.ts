import { Turns } from '../../base/turns.ts';
import { AgentError } from '../../driver/runtime-driver.ts';

/** Bytes that the incomplete lines of one sandbox may hold together before a line must wait for a turn. */
const SHARED_BYTES = 8 * 1024 * 1024;
/** Lines in the whole server that may hold more at once. */
const AT_ONCE = 8;
/**
 * Time limit for receiving such a line, in milliseconds. An honest agent sends the longest possible line in a fraction
 * of it.
 */
const TIME_LIMIT_MS = 10_000;

/** Memory account for the incomplete line. */
export interface LineMemory {
  /**
   * Requests `bytes` more. Returns undefined when there is room already, else a promise that resolves when there is.
   */
  hold(bytes: number): Promise<void> | undefined;
  /** Frees the memory once the line is complete. */
  release(): void;
}

/**
 * Limits the memory of incomplete lines. The short lines of a sandbox share a small store. A longer line waits for a
 * turn, first in its sandbox and then in the server, and must then end in time.
 */
export class ServerLineMemory {
  readonly turns: Turns;
  readonly timeLimitMs: number;

  constructor({ atOnce = AT_ONCE, timeLimitMs = TIME_LIMIT_MS } = {}) {
    this.turns = new Turns(atOnce);
    this.timeLimitMs = timeLimitMs;
  }
}

/** The incomplete lines of one sandbox. */
export class SandboxLineMemory {
  readonly #all: ServerLineMemory;
  readonly #turns = new Turns(1);
  #sharedBytes = 0;

  constructor(all: ServerLineMemory) {
    this.#all = all;
  }

  /**
   * Returns a store for one stream of lines, which the caller disposes of. Calls `onOverdue` when a long line exceeds
   * its time limit.
   */
  open(signal: AbortSignal, onOverdue: (error: AgentError) => void): StreamLineMemory {
    return new StreamLineMemory({
      share: (bytes) => {
        if (bytes > 0 && this.#sharedBytes + bytes > SHARED_BYTES) return false;
        this.#sharedBytes += bytes;
        return true;
      },
      takeTurn: () => this.#takeTurn(signal, onOverdue),
    });
  }

  async #takeTurn(signal: AbortSignal, onOverdue: (error: AgentError) => void): Promise<() => void> {
    const { turns, timeLimitMs } = this.#all;
    await this.#turns.take(signal);
    try {
      await turns.take(signal);
    } catch (error) {
      this.#turns.give();
      throw error;
    }
    const timer = setTimeout(
      () => onOverdue(new AgentError('misbehaved', `a long line that did not end within ${timeLimitMs} ms`)),
      timeLimitMs,
    );
    return () => {
      clearTimeout(timer);
      turns.give();
      this.#turns.give();
    };
  }
}

interface StreamLineMemoryDeps {
  /**
   * Takes `bytes` of the sandbox's store, or returns them if negative. Returns false when the store has too few left.
   */
  share: (bytes: number) => boolean;
  takeTurn: () => Promise<() => void>;
}

/** The memory of one stream's incomplete line. */
export class StreamLineMemory implements LineMemory, Disposable {
  readonly #options: StreamLineMemoryDeps;
  #sharedBytes = 0;
  #giveTurn: (() => void) | undefined;

  constructor(options: StreamLineMemoryDeps) {
    this.#options = options;
  }

  /** Returns undefined when there is room for `bytes` more, else a promise that resolves when there is. */
  hold(bytes: number): Promise<void> | undefined {
    if (this.#giveTurn) return undefined;
    if (!this.#options.share(bytes)) return this.#takeTurn();
    this.#sharedBytes += bytes;
    return undefined;
  }

  /** Frees the memory once the line is complete. Idempotent. */
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
