/** Requests whose bodies are streams of any size: who waits to be told to send, and who is sending. */
import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { Readable } from 'node:stream';
import { requestBody } from '../bytes/byte-transfer.ts';
import type { Front } from './front.ts';
import type { Route, Upload } from './route.ts';

/** Clients that asked whether to send their bodies, and have no answer yet. */
const awaitingContinue = new WeakSet<IncomingMessage>();
const uploading = new WeakSet<object>();

/** For these routes `100 Continue` is said when the body is wanted, so that a refusal comes before any of it is sent. */
export function holdContinue(server: Server, routes: readonly Route[], front: Front | undefined): void {
  const paths = routes.map(({ operation }) => new RegExp(`^${operation.path.replace(/\{\w+\}/g, '[^/]+')}(\\?|$)`));
  server.on('checkContinue', (request: IncomingMessage, response: ServerResponse) => {
    if (!front?.takes(request) && paths.some((path) => path.test(request.url ?? ''))) awaitingContinue.add(request);
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

/** From here to its disposal the body of the request may take as long as it takes; whoever calls it ends one that stalls. */
export function letArrive({ socket }: IncomingMessage): Disposable {
  uploading.add(socket);
  return { [Symbol.dispose]: () => uploading.delete(socket) };
}

/** The body of `request`, given up when no byte of it comes for `stallMs`; disposing it is the end of its arriving. */
export function uploadOf(request: IncomingMessage, response: ServerResponse, stallMs: number): Upload & Disposable {
  const arriving = letArrive(request);
  const length = request.headers['content-length'];
  response.setTimeout(stallMs);
  return {
    sizeBytes: length === undefined ? undefined : Number(length),
    contentType: request.headers['content-type'],
    open(): Readable {
      if (awaitingContinue.delete(request)) response.writeContinue();
      return requestBody(request, response);
    },
    [Symbol.dispose]: () => arriving[Symbol.dispose](),
  };
}
