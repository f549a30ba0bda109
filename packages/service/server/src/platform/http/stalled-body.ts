import type { IncomingMessage, ServerResponse } from 'node:http';
import { liftTimeLimit } from './uploads.ts';

/** Looks in one `stallMs`. */
const LOOKS = 4;

/**
 * Lets the body of a request take any time, and ends its connection when its client sends no byte for `stallMs` although
 * it may. A body that waits for the server, which reads no more of it, does not stall.
 */
export function endStalled(request: IncomingMessage, response: ServerResponse, stallMs: number): void {
  const arriving = liftTimeLimit(request);
  const { socket } = request;
  let seenBytes = socket.bytesRead;
  let looks = 0;
  const timer = setInterval(() => {
    const isUnread = request.readableLength >= request.readableHighWaterMark;
    if (request.complete || isUnread || socket.bytesRead !== seenBytes) looks = 0;
    else looks += 1;
    seenBytes = socket.bytesRead;
    if (looks >= LOOKS) request.destroy();
  }, stallMs / LOOKS);
  timer.unref();
  response.once('close', () => {
    clearInterval(timer);
    arriving[Symbol.dispose]();
  });
}
