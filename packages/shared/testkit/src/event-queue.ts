/** Makes pushed events iterable. Unbounded, so only for fakes. */
export class EventQueue<T> implements AsyncIterable<T> {
  readonly #events: T[] = [];
  readonly #onLeave: () => void;
  #end: { error: unknown } | 'open' | 'closed' = 'open';
  #wake: () => void = () => undefined;

  /** @param onLeave called when the iteration ends or is abandoned. */
  constructor(onLeave: () => void) {
    this.#onLeave = onLeave;
  }

  push(event: T): void {
    if (this.#end === 'open') this.#events.push(event);
    this.#wake();
  }

  close(): void {
    if (this.#end === 'open') this.#end = 'closed';
    this.#wake();
  }

  /** Ends the iteration with an error at once. Unread events are dropped, as with a broken connection. */
  fail(error: unknown): void {
    if (this.#end !== 'open') return;
    this.#events.length = 0;
    this.#end = { error };
    this.#wake();
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<T, void> {
    try {
      for (;;) {
        const event = this.#events.shift();
        if (event !== undefined) yield event;
        else if (this.#end === 'closed') return;
        else if (this.#end !== 'open') throw this.#end.error;
        else await new Promise<void>((resolve) => (this.#wake = resolve));
      }
    } finally {
      this.#onLeave();
    }
  }
}
