import type { IncomingMessage } from 'node:http';
import { finished, PassThrough, type Readable } from 'node:stream';
import { SocketBody } from './socket-body.ts';

/**
 * Returns the body of a request as a stream of its own. When that stream is destroyed, `readRest` can still read the rest
 * of the body, so that the connection goes on to the next request. Node reads no more of a request that is destroyed
 * itself, by `pipeline` or by an iteration that stops, and leaves its connection open.
 */
export function bodyStream(request: IncomingMessage): Readable {
  const body = new PassThrough();
  // An `error` event without a listener would end the process; a request emits none then.
  body.on('error', () => undefined);
  finished(request, { writable: false }, (error) => {
    if (error) body.destroy(error);
  });
  return request.pipe(body);
}

/** Discards the rest of a request's body. A `SocketBody` does so itself. */
export function readRest(request: IncomingMessage): void {
  if (SocketBody.isReading(request)) return;
  request.unpipe();
  request.resume();
}
