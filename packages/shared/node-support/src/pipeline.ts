import type { ServerResponse } from 'node:http';
import type { Socket } from 'node:net';

/** Return value of `onIncoming` that makes Node's parser fail. */
const PARSER_ERROR = -1;

/** The unanswered requests of one connection. */
export class Pipeline {
  readonly #socket: Socket;
  readonly #pending = new Set<ServerResponse>();
  readonly #onIdle: () => void;
  #isFull = false;
  #isClosing = false;

  /** @param onIdle called when a connection that was full has no unanswered request left */
  constructor(socket: Socket, mostPending: number, onIdle: () => void) {
    this.#socket = socket;
    this.#onIdle = onIdle;
    this.#bound(mostPending);
    socket.once('close', () => this.#closeAll());
  }

  /**
   * Whether further requests are not read, because requests beyond the limit have arrived, or an answer with `Connection:
   * close` has been sent. After such an answer Node still serves requests until the socket ends. One that is answered
   * before an earlier one that waits makes an assertion of Node fail, which ends the process.
   */
  get readsNoMore(): boolean {
    return this.#isFull || this.#isClosing;
  }

  /** Whether no answer is left that the client should still get. */
  get mayEnd(): boolean {
    return this.isIdle || this.#isClosing;
  }

  get isIdle(): boolean {
    return this.#pending.size === 0;
  }

  /** Whether a refusal written to the socket would be read as the answer to the request that arrives now. */
  get isUnanswered(): boolean {
    const [first, second] = this.#pending;
    return !first || (!second && !first.headersSent && !first.writableEnded);
  }

  add(response: ServerResponse): void {
    if (this.#pending.has(response)) return;
    this.#pending.add(response);
    response.prependOnceListener('finish', () => {
      this.#isClosing ||= closesConnection(response);
    });
    response.once('close', () => {
      this.#pending.delete(response);
      if (this.#isFull && this.isIdle) this.#onIdle();
    });
  }

  /**
   * Makes the parser fail at a request that is not read. A read of 64 KiB can hold 3,600 requests, and Node's parser
   * would otherwise create all of them in one turn of the event loop.
   */
  #bound(mostPending: number): void {
    // An internal property of Node, present in all releases so far.
    const { parser } = this.#socket as { parser?: { onIncoming(...incoming: unknown[]): number } };
    if (!parser) return;
    const onIncoming = parser.onIncoming;
    parser.onIncoming = (...incoming) => {
      this.#isFull ||= this.#pending.size >= mostPending;
      return this.readsNoMore ? PARSER_ERROR : onIncoming(...incoming);
    };
  }

  /** Closes what Node does not: responses that wait behind another one, and the requests of a connection that left. */
  #closeAll(): void {
    for (const { req } of this.#pending) req.destroy();
    // Later than Node's listeners, which close the response that is being sent.
    process.nextTick(() => {
      for (const response of this.#pending) {
        response.destroy();
        response.emit('close');
      }
    });
  }
}

function closesConnection(response: ServerResponse): boolean {
  // An internal property of Node, present in all releases so far.
  return (response as { _last?: boolean })._last === true;
}
