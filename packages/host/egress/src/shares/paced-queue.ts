import type { EventEmitter } from 'node:events';

export interface PacedQueueOptions {
  /** Most items running at once. Further ones wait. */
  concurrency: number;
  /** Items that begin in one turn of the event loop. */
  startsPerTurn: number;
}

/** The client of a request. Its event `close` ends the wait of the request. */
type Client = Pick<EventEmitter, 'once' | 'off'> & { readonly destroyed?: boolean };

/**
 * Limits how many items of a sandbox run at once, and how many begin in one turn of the event loop, so that other
 * sandboxes need not wait. Refuses nothing: further items wait in order until their client disconnects. A `Semaphore`
 * would let all free slots be taken in one turn.
 */
export class PacedQueue {
  readonly #options: PacedQueueOptions;
  readonly #waiting = new Set<() => void>();
  #left: number;
  #running = 0;
  #isTurnScheduled = false;

  constructor(options: PacedQueueOptions) {
    this.#options = options;
    this.#left = options.startsPerTurn;
  }

  get waiting(): number {
    return this.#waiting.size;
  }

  get running(): number {
    return this.#running;
  }

  /** Resolves when the item may begin. Dispose of the result at its end. Undefined if the client disconnects before. */
  begin(client?: Client): Promise<Disposable | undefined> {
    if (client?.destroyed) return Promise.resolve(undefined);
    const { promise, resolve } = Promise.withResolvers<Disposable | undefined>();
    const begin = () => {
      client?.off('close', leave);
      resolve(this.#place());
    };
    const leave = () => {
      this.#waiting.delete(begin);
      resolve(undefined);
    };
    client?.once('close', leave);
    this.#waiting.add(begin);
    this.#beginWaiting();
    return promise;
  }

  #place(): Disposable {
    this.#running += 1;
    let isEnded = false;
    return {
      [Symbol.dispose]: () => {
        if (isEnded) return;
        isEnded = true;
        this.#running -= 1;
        this.#beginWaiting();
      },
    };
  }

  #beginWaiting(): void {
    for (const begin of this.#waiting) {
      if (this.#left === 0 || this.#running >= this.#options.concurrency) break;
      this.#left -= 1;
      this.#waiting.delete(begin);
      begin();
    }
    if (this.#isTurnScheduled || this.#left === this.#options.startsPerTurn) return;
    this.#isTurnScheduled = true;
    setImmediate(() => {
      this.#isTurnScheduled = false;
      this.#left = this.#options.startsPerTurn;
      this.#beginWaiting();
    });
  }
}
