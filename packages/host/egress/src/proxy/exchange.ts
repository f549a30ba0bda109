import type { Readable, Writable } from 'node:stream';
import type { RawFields } from '@cloche/node-support';

/** One request and its response, independent of the client's HTTP version. */
export interface Exchange {
  readonly method: string;
  /** End-to-end header fields, without the host. */
  readonly fields: RawFields;
  /** Undefined if the request has no body. */
  readonly body: Readable | undefined;
  /** Called before the body is read, for a client that waits for `100 Continue`. */
  readonly sendContinue?: () => void;
  /** Begins the response. Returns undefined if it can have no body. */
  answer(status: number, message: string, fields: RawFields): Writable | undefined;
  /** Calls back once if the client disconnects before the response is complete. */
  onAbandoned(callback: () => void): void;
  /** Sends egress' own JSON response, or breaks the connection off if a response has begun. */
  refuse(status: number, body: string): void;
}

/** Returns the body of a response that egress gives in place of the server. */
export function refusalBody(
  code: 'egress_denied' | 'egress_malformed' | 'egress_failed',
  host: string,
  reason: string,
) {
  return JSON.stringify({ error: { code, host, reason } });
}
