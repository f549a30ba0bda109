/** Few enough that others' requests come in between soon, and enough to keep both ends busy. */
const BEGUN_IN_A_TURN = 4;

/**
 * Lets a sandbox begin a few requests in each turn of the event loop, so that nobody else waits for all that it asks for
 * at once. None is refused, and no more wait than its connections can carry.
 */
export class PacedStart {
  readonly #waiting: (() => void)[] = [];
  #left = BEGUN_IN_A_TURN;
  #isTurning = false;

  /** Undefined when a request may begin at once, else what resolves when it is its turn. */
  begin(): Promise<void> | undefined {
    if (!this.#isTurning) setImmediate(() => this.#turn());
    this.#isTurning = true;
    if (this.#left > 0) {
      this.#left -= 1;
      return undefined;
    }
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#waiting.push(resolve);
    return promise;
  }

  #turn(): void {
    const begun = this.#waiting.splice(0, BEGUN_IN_A_TURN);
    for (const begin of begun) begin();
    this.#left = BEGUN_IN_A_TURN - begun.length;
    this.#isTurning = begun.length > 0;
    if (this.#isTurning) setImmediate(() => this.#turn());
  }
}
