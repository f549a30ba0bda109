/** From one who gives values to one who takes them, each when it is asked for. */
export class Rendezvous<Value> {
  #given: { readonly value: Value; readonly taken: () => void } | undefined;
  #asked: ((value: Value | undefined) => void) | undefined;
  #isOver = false;

  /** Undefined when it was taken already; else resolves when it is, or when nobody will. One at a time. */
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

  /** The next value, or undefined after the last one. One at a time. */
  take(): Promise<Value | undefined> {
    const given = this.#given;
    this.#given = undefined;
    given?.taken();
    if (given || this.#isOver) return Promise.resolve(given?.value);
    return new Promise((asked) => {
      this.#asked = asked;
    });
  }

  /** Nothing more is given, or taken. Idempotent. */
  end(): void {
    this.#isOver = true;
    this.#given?.taken();
    this.#asked?.(undefined);
    this.#asked = undefined;
  }
}
