import type { ServerResponse } from 'node:http';
import { Stopwatch, TIMINGS_HEADER } from '@cloche/protocol';

const stopwatches = new WeakMap<ServerResponse, Stopwatch>();

/** Starts a stopwatch for a response. `answer` adds the elapsed time as a header. */
export function timeAnswer(response: ServerResponse): void {
  stopwatches.set(response, new Stopwatch());
}

/** Sends a response with a JSON body, or without a body. */
export function answer(response: ServerResponse, status: number, body?: unknown): void {
  const stopwatch = stopwatches.get(response);
  if (stopwatch) response.setHeader(TIMINGS_HEADER, stopwatch.read());
  if (body === undefined) {
    response.writeHead(status).end();
    return;
  }
  const text = JSON.stringify(body);
  response.writeHead(status, { 'content-type': 'application/json', 'content-length': Buffer.byteLength(text) });
  response.end(text);
}
