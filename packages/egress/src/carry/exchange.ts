import type { Readable, Writable } from 'node:stream';
import type { RawFields } from '@cloche/protocol';

/** One request and its answer, whichever version of HTTP the client speaks. */
export interface Exchange {
  readonly method: string;
  /** What is for the server, without the host. */
  readonly fields: RawFields;
  /** Undefined when the request has none. */
  readonly body: Readable | undefined;
  /** Called when the body is about to be read, for a client that waits to be told. */
  readonly askForBody?: () => void;
  /** Begins the answer. Undefined when it can have no body. */
  answer(status: number, message: string, fields: RawFields): Writable | undefined;
  /** Calls back, once, when the client has gone before the answer was complete. */
  onAbandoned(callback: () => void): void;
  /** Answers with JSON of our own, or breaks off when an answer has begun. */
  refuse(status: number, body: string): void;
}

/** What a client is told when egress answers in place of the server. */
export function refusalBody(
  code: 'egress_denied' | 'egress_malformed' | 'egress_failed',
  host: string,
  reason: string,
) {
  return JSON.stringify({ error: { code, host, reason } });
}
