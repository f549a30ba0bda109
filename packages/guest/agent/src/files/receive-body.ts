import type { IncomingMessage, ServerResponse } from 'node:http';
import { setImmediate } from 'node:timers/promises';
import { DirectBody } from '@cloche/node-support';
import { receive } from './receive.ts';
import { receiveDirectly } from './receive-directly.ts';

/** Writes the body of a request to a file, from its beginning. Rejects if the transfer breaks off. */
export async function receiveBody(request: IncomingMessage, response: ServerResponse, fd: number): Promise<void> {
  // The HTTP parser may still be processing the chunk with the header. It must finish before it is bypassed.
  if (DirectBody.isPossible(request)) await setImmediate();
  const { 'content-length': length } = request.headers;
  await (DirectBody.isPossible(request)
    ? receiveDirectly(request, response, fd)
    : receive(request, fd, length === undefined ? undefined : Number(length)));
}
