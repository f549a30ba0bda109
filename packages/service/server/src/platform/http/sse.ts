import type { OutgoingHttpHeaders, ServerResponse } from 'node:http';
import { setImmediate } from 'node:timers/promises';
import { ClientGoneError } from './in-flight.ts';
import { isLarge, jsonPieces } from './json-pieces.ts';

/** Encoded JSON in pieces. */
export type JsonText = Iterable<string | Buffer> | AsyncIterable<string | Buffer>;

export type SseEvent = {
  /** Id that a client sends as the last one that it received when it resumes the stream. */
  readonly id?: number;
  readonly type: string;
} & (
  | { readonly data: unknown /** Further fields of the event. */; readonly fields?: Readonly<Record<string, unknown>> }
  | { readonly json: JsonText }
);

export interface SseTimes {
  /** Time without an event after which a comment is sent, so that no proxy closes the connection. */
  readonly keepAliveMs: number;
  /** Time after which a client that reads nothing is disconnected. */
  readonly stallMs: number;
}

const TIMES: SseTimes = { keepAliveMs: 15_000, stallMs: 30_000 };

/**
 * Writes server-sent events to one response. Each event is passed to the socket at once. Unsent data is bounded,
 * because `send` resolves only when there is room for more. No library is used: the format has three lines, and what
 * matters here is this bound, the time limit for a client that reads nothing, and the splitting of large values.
 */
export class SseWriter {
  readonly #response: ServerResponse;
  readonly #times: SseTimes;
  readonly #keepAlive: NodeJS.Timeout;
  #isInFrame = false;

  /** Sends the response's head, which includes `headers`. */
  constructor(response: ServerResponse, headers: OutgoingHttpHeaders, times: SseTimes = TIMES) {
    this.#response = response;
    this.#times = times;
    response.writeHead(200, {
      ...headers,
      'content-type': 'text/event-stream; charset=utf-8',
      'cache-control': 'no-store',
      // Keeps nginx from buffering the events.
      'x-accel-buffering': 'no',
    });
    response.flushHeaders();
    this.#keepAlive = setInterval(() => {
      if (!response.writableNeedDrain && !this.#isInFrame) response.write(': keep-alive\n\n');
    }, times.keepAliveMs);
    this.#keepAlive.unref();
    response.once('close', () => clearInterval(this.#keepAlive));
  }

  /** @throws ClientGoneError when the client does not receive the event. */
  async send(event: SseEvent): Promise<void> {
    if (this.#isInFrame) {
      // An incomplete frame can be neither completed nor followed by another.
      this.#response.destroy();
      throw new ClientGoneError();
    }
    const { id, type } = event;
    this.#keepAlive.refresh();
    const position = id === undefined ? '' : `id: ${id}\n`;
    const fields = 'fields' in event && event.fields ? `${JSON.stringify(event.fields).slice(1, -1)},` : '';
    const head = `${position}event: ${type}\ndata: {${fields}"type":${JSON.stringify(type)},"data":`;
    if ('data' in event && !isLarge(event.data)) await this.#write(`${head}${JSON.stringify(event.data)}}\n\n`);
    else await this.#sendPieces(head, 'json' in event ? event.json : jsonPieces(event.data));
  }

  end(): void {
    clearInterval(this.#keepAlive);
    this.#response.end();
  }

  async #sendPieces(head: string, json: JsonText): Promise<void> {
    for await (const piece of json) {
      // Only now: if the JSON cannot be opened, the stream can still end with an error event.
      if (!this.#isInFrame) await this.#beginFrame(head);
      await this.#write(piece);
      // Lets other requests run between pieces, however fast the client reads.
      await setImmediate();
    }
    await this.#write('}\n\n');
    this.#isInFrame = false;
  }

  async #beginFrame(head: string): Promise<void> {
    this.#isInFrame = true;
    await this.#write(head);
  }

  async #write(piece: string | Buffer): Promise<void> {
    if (this.#response.destroyed) throw new ClientGoneError();
    if (!this.#response.write(piece)) await this.#drained();
  }

  #drained(): Promise<void> {
    const response = this.#response;
    return new Promise((resolve, reject) => {
      const settle = (act: () => void) => () => {
        clearTimeout(timer);
        response.off('drain', onDrain).off('close', onClose);
        act();
      };
      const onDrain = settle(resolve);
      const onClose = settle(() => reject(new ClientGoneError()));
      const timer = setTimeout(() => response.destroy(), this.#times.stallMs);
      response.once('drain', onDrain).once('close', onClose);
    });
  }
}
