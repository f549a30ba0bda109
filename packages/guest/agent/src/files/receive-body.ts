import type { IncomingMessage, ServerResponse } from 'node:http';
import { setImmediate } from 'node:timers/promises';
import { SocketBody } from '@cloche/node-support';
import { receive } from './receive.ts';
import { receiveFromSocket } from './receive-from-socket.ts';

/** Writes the body of a request to a file, from its beginning. Rejects if the transfer breaks off. */
export async function receiveBody(request: IncomingMessage, response: ServerResponse, fd: number): Promise<void> {
  // The HTTP parser may still be processing the chunk with the header. It must finish before it is bypassed.
  if (SocketBody.isPossible(request)) await setImmediate();
  const { 'content-length': length } = request.headers;
  await (SocketBody.isPossible(request)
    ? receiveFromSocket(request, response, fd)
    : receive(request, fd, length === undefined ? undefined : Number(length)));
}
