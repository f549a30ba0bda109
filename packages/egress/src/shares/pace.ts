import type { EventEmitter } from 'node:events';

export interface PaceOptions {
  /** Under way at once; further ones wait. */
  atOnce: number;
  /** Begun in one turn of the event loop. */
  inATurn: number;
}

/** The client of a request. Its event `close` ends the wait of the request. */
type Client = Pick<EventEmitter, 'once' | 'off'> & { readonly destroyed?: boolean };

/**
 * Bounds what a sandbox has under way, and lets it begin a little in each turn of the event loop, so that others do not
 * wait for all that it asks for at once. Nothing is refused: the rest waits in order, for as long as its client is there.
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

  /** Resolves when it may begin, with what is disposed of at its end; undefined when the client went away before. */
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
