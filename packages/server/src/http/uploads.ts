/** Requests whose bodies are streams of any size: who waits to be told to send, and who is sending. */
import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { Readable } from 'node:stream';
import type { Route, Upload } from './route.ts';

/** An upload, or an answer, of which no byte moved for so long is given up. */
export const STALL_MS = 60_000;

/** Clients that asked whether to send their bodies, and have no answer yet. */
const awaitingContinue = new WeakSet<IncomingMessage>();
const uploading = new WeakSet<object>();

/** For these routes `100 Continue` is said when the body is wanted, so that a refusal comes before any of it is sent. */
export function holdContinue(server: Server, routes: readonly Route[]): void {
  const paths = routes.map(({ operation }) => new RegExp(`^${operation.path.replace(/\{\w+\}/g, '[^/]+')}(\\?|$)`));
  server.on('checkContinue', (request: IncomingMessage, response: ServerResponse) => {
    if (paths.some((path) => path.test(request.url ?? ''))) awaitingContinue.add(request);
    else response.writeContinue();
    server.emit('request', request, response);
  });
}

export function isAwaitingContinue(request: IncomingMessage): boolean {
  return awaitingContinue.has(request);
}

export function isUploading(socket: object): boolean {
  return uploading.has(socket);
}

/** The body of `request`; disposing it is the end of its arriving. */
export function uploadOf(request: IncomingMessage, response: ServerResponse): Upload & Disposable {
  const { socket } = request;
  const length = request.headers['content-length'];
  response.setTimeout(STALL_MS);
  uploading.add(socket);
  return {
    sizeBytes: length === undefined ? undefined : Number(length),
    contentType: request.headers['content-type'],
    open(): Readable {
      if (awaitingContinue.delete(request)) response.writeContinue();
      return request;
    },
    [Symbol.dispose]: () => uploading.delete(socket),
  };
}
