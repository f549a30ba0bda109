import { Semaphore } from '@cloche/node-support';
import { AgentError } from '../../driver/runtime-driver.ts';

/** Bytes that the incomplete lines of one sandbox may hold together before a line must wait for a slot. */
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
 * slot, first in its sandbox and then in the server, and must then end in time.
 */
export class ServerLineMemory {
  readonly slots: Semaphore;
  readonly timeLimitMs: number;

  constructor({ atOnce = AT_ONCE, timeLimitMs = TIME_LIMIT_MS } = {}) {
    this.slots = new Semaphore(atOnce);
    this.timeLimitMs = timeLimitMs;
  }
}

/** The incomplete lines of one sandbox. */
export class SandboxLineMemory {
  readonly #all: ServerLineMemory;
  readonly #slot = new Semaphore(1);
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
      acquire: () => this.#acquire(signal, onOverdue),
    });
  }

  async #acquire(signal: AbortSignal, onOverdue: (error: AgentError) => void): Promise<Disposable> {
    const { slots, timeLimitMs } = this.#all;
    using held = new DisposableStack();
    held.use(await this.#slot.acquire(signal));
    held.use(await slots.acquire(signal));
    const overdue = () =>
      onOverdue(new AgentError('misbehaved', `The agent did not end a long line within ${timeLimitMs} ms.`));
    held.adopt(setTimeout(overdue, timeLimitMs), clearTimeout);
    return held.move();
  }
}

interface StreamLineMemoryDeps {
  /**
   * Takes `bytes` of the sandbox's store, or returns them if negative. Returns false when the store has too few left.
   */
  share: (bytes: number) => boolean;
  acquire: () => Promise<Disposable>;
}

/** The memory of one stream's incomplete line. */
export class StreamLineMemory implements LineMemory, Disposable {
  readonly #options: StreamLineMemoryDeps;
  #sharedBytes = 0;
  #slot: Disposable | undefined;

  constructor(options: StreamLineMemoryDeps) {
    this.#options = options;
  }

  /** Returns undefined when there is room for `bytes` more, else a promise that resolves when there is. */
  hold(bytes: number): Promise<void> | undefined {
    if (this.#slot) return undefined;
    if (!this.#options.share(bytes)) return this.#acquire();
    this.#sharedBytes += bytes;
    return undefined;
  }

  /** Frees the memory once the line is complete. Idempotent. */
  release(): void {
    if (this.#sharedBytes > 0) this.#options.share(-this.#sharedBytes);
    this.#sharedBytes = 0;
    this.#slot?.[Symbol.dispose]();
    this.#slot = undefined;
  }

  [Symbol.dispose](): void {
    this.release();
  }

  async #acquire(): Promise<void> {
    this.#slot = await this.#options.acquire();
  }
}
