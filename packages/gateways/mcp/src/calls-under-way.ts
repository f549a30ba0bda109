/** A request of a client, as the client tells it apart. */
export interface RequestName {
  readonly apiKey: string;
  /** The session of the client; for one without a session, its `User-Agent` and address. */
  readonly client: readonly (string | undefined)[];
  /** Id of the message. */
  readonly id: unknown;
}

/** The requests that this server works on, for clients that cancel one by a message of its own. */
export class CallsUnderWay {
  readonly #calls = new Map<string, Set<AbortController>>();

  /** @param call aborts when the client cancels the request */
  add(name: RequestName, call: AbortController): Disposable {
    const text = textOf(name);
    const calls = this.#calls.get(text) ?? new Set();
    this.#calls.set(text, calls.add(call));
    return {
      [Symbol.dispose]: () => {
        calls.delete(call);
        if (calls.size === 0) this.#calls.delete(text);
      },
    };
  }

  /**
   * Cancels the request with this name. Does nothing if there are several: clients number their requests alike, and
   * those of one key without sessions may have nothing else that tells them apart.
   */
  cancel(name: RequestName): void {
    const [call, ...others] = this.#calls.get(textOf(name)) ?? [];
    if (others.length === 0) call?.abort();
  }
}

function textOf({ apiKey, client, id }: RequestName): string {
  return JSON.stringify([apiKey, ...client, id]);
}
