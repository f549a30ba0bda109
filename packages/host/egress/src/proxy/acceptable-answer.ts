import type { IncomingMessage } from 'node:http';
import { EgressError } from '../upstream/egress-error.ts';

/** Statuses of final responses. Node handles those below, which are interim or, below 100, no status at all. */
const FIRST_STATUS = 200;
const LAST_STATUS = 599;

/**
 * Throws `bad_response` for a final response that a client must not accept, although Node's parser does: one with a
 * status outside of the five classes (RFC 9110, 15), or with a transfer coding other than chunked, which no request of
 * egress accepts and which would be passed on without its name (RFC 9112, 6.1 and 7.4).
 */
export function assertAcceptable({ statusCode = 0, headers }: IncomingMessage): void {
  if (statusCode < FIRST_STATUS || statusCode > LAST_STATUS) {
    throw new EgressError('bad_response', `the server sent the status ${statusCode}`);
  }
  const coding = headers['transfer-encoding'];
  if (coding !== undefined && coding.toLowerCase() !== 'chunked') {
    throw new EgressError('bad_response', 'the server sent a transfer coding that was not asked for');
  }
}

/** Throws `bad_response` for a server that switches to a protocol other than WebSocket (RFC 6455, 4.1). */
export function assertWebSocket({ headers }: IncomingMessage): void {
  if (headers.upgrade?.toLowerCase() !== 'websocket') {
    throw new EgressError('bad_response', 'the server switched to a protocol that was not asked for');
  }
}
