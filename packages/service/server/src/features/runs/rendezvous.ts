/** Hands values from a producer to a consumer without a buffer. */
export class Rendezvous<Value> {
  #given: { readonly value: Value; readonly taken: () => void } | undefined;
  #asked: ((value: Value | undefined) => void) | undefined;
  #isOver = false;

  /**
   * Returns undefined when a consumer was waiting or the rendezvous has ended. Otherwise resolves when the value is
   * taken or the rendezvous ends. Supports one producer at a time.
   */
  give(value: Value): Promise<void> | undefined {
    if (this.#isOver) return undefined;
    if (this.#asked) {
      this.#asked(value);
      this.#asked = undefined;
      return undefined;
    }
    return new Promise((taken) => {
      this.#given = { value, taken };
    });
  }

  /** Resolves with the next value, or undefined after the end. Supports one consumer at a time. */
  take(): Promise<Value | undefined> {
    const given = this.#given;
    this.#given = undefined;
    given?.taken();
    if (given || this.#isOver) return Promise.resolve(given?.value);
    return new Promise((asked) => {
      this.#asked = asked;
    });
  }

  /** Ends the rendezvous. Idempotent. */
  end(): void {
    this.#isOver = true;
    this.#given?.taken();
    this.#asked?.(undefined);
    this.#asked = undefined;
  }
}
