import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { answerTo, EVENT, lastEventOf } from './every-command.ts';

/** A service that answers all requests before one, and never answers that one. */
export class HeldService implements AsyncDisposable {
  /** Resolves when the request that gets no answer has arrived. */
  readonly held: Promise<void>;
  readonly #server = createServer((request, response) => this.#answer(request, response));
  readonly #holdAt: number;
  readonly #noteHeld: () => void;
  #requests = 0;

  /** @param holdAt number of the request that gets no answer, from 1 */
  constructor(holdAt: number) {
    this.#holdAt = holdAt;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.held = promise;
    this.#noteHeld = resolve;
  }

  async listen(): Promise<string> {
    this.#server.listen(0, '127.0.0.1');
    await once(this.#server, 'listening');
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /** Closes all connections, as a killed process does. */
  async [Symbol.asyncDispose](): Promise<void> {
    if (!this.#server.listening) return;
    this.#server.close();
    this.#server.closeAllConnections();
    await once(this.#server, 'close');
  }

  #answer(request: IncomingMessage, response: ServerResponse): void {
    // A body that is sent must be read.
    request.resume();
    this.#requests += 1;
    if (this.#requests === this.#holdAt) {
      this.#noteHeld();
      return;
    }
    const { url = '', headers } = request;
    if (headers.accept !== 'text/event-stream') {
      response.setHeader('content-type', 'application/json');
      response.end(JSON.stringify(answerTo(url)));
      return;
    }
    const last = lastEventOf(url);
    response.setHeader('content-type', 'text/event-stream; charset=utf-8');
    response.write(`data: ${JSON.stringify(last ?? EVENT)}\n\n`);
    // An open stream is like a request without an answer.
    if (last === undefined) this.#noteHeld();
    else response.end();
  }
}
