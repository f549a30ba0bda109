import type { EventEmitter } from 'node:events';

export interface PaceOptions {
  /** Most items running at once. Further ones wait. */
  atOnce: number;
  /** Items that begin in one turn of the event loop. */
  inATurn: number;
}

/** The client of a request. Its event `close` ends the wait of the request. */
type Client = Pick<EventEmitter, 'once' | 'off'> & { readonly destroyed?: boolean };

/**
 * Limits how many items of a sandbox run at once, and how many begin in one turn of the event loop, so that other
 * sandboxes need not wait. Refuses nothing: further items wait in order until their client disconnects.
 */
export class Pace {
  readonly #options: PaceOptions;
  readonly #waiting = new Set<() => void>();
  #left: number;
  #underWay = 0;
  #isTurning = false;

  constructor(options: PaceOptions) {
    this.#options = options;
    this.#left = options.inATurn;
  }

  get waiting(): number {
    return this.#waiting.size;
  }

  get underWay(): number {
    return this.#underWay;
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
    this.#underWay += 1;
    let isEnded = false;
    return {
      [Symbol.dispose]: () => {
        if (isEnded) return;
        isEnded = true;
        this.#underWay -= 1;
        this.#beginWaiting();
      },
    };
  }

  #beginWaiting(): void {
    for (const begin of this.#waiting) {
      if (this.#left === 0 || this.#underWay >= this.#options.atOnce) break;
      this.#left -= 1;
      this.#waiting.delete(begin);
      begin();
    }
    if (this.#isTurning || this.#left === this.#options.inATurn) return;
    this.#isTurning = true;
    setImmediate(() => {
      this.#isTurning = false;
      this.#left = this.#options.inATurn;
      this.#beginWaiting();
    });
  }
}
