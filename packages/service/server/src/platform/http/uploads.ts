/**
 * Tracks requests whose bodies are streams of any size: those that wait for `100 Continue`, and those whose bodies are
 * arriving.
 */
import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import { pipeline, type Readable } from 'node:stream';
import { requestBody } from '@cloche/runtime/byte-transfer';
import { AppError } from '../base/app-error.ts';
import { digestCheckOf } from './content-digest.ts';
import type { FindHostRouter } from './host-router.ts';
import type { Route, Upload } from './route.ts';

/** Requests that wait for `100 Continue`. */
const awaitingContinue = new WeakSet<IncomingMessage>();
const uploading = new WeakSet<object>();

/** Delays `100 Continue` for these routes until the body is wanted, so that a refusal precedes the body. */
export function holdContinue(server: Server, routes: readonly Route[], findHostRouter?: FindHostRouter): void {
  const paths = routes.map(({ operation }) => new RegExp(`^${operation.path.replace(/\{\w+\}/g, '[^/]+')}(\\?|$)`));
  server.on('checkContinue', (request: IncomingMessage, response: ServerResponse) => {
    if (!findHostRouter?.(request) && paths.some((path) => path.test(request.url ?? ''))) awaitingContinue.add(request);
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

/** Lifts the total time limit of a request body until disposed of. The caller must end a body that stalls. */
export function liftTimeLimit({ socket }: IncomingMessage): Disposable {
  uploading.add(socket);
  return { [Symbol.dispose]: () => uploading.delete(socket) };
}

export interface ArrivingUpload extends Upload, Disposable {
  /** Why the body is refused, if it has another digest than its request states. Its reader gets an error too. */
  readonly failure: AppError | undefined;
}

/**
 * Returns the body of `request`, which is abandoned when no byte arrives for `stallMs`. Dispose of it when the body has
 * arrived.
 */
export function uploadOf(request: IncomingMessage, response: ServerResponse, stallMs: number): ArrivingUpload {
  const check = digestCheckOf(request.headers['content-digest'] as string | undefined);
  const arriving = liftTimeLimit(request);
  const length = request.headers['content-length'];
  response.setTimeout(stallMs);
  return {
    sizeBytes: length === undefined ? undefined : Number(length),
    contentType: request.headers['content-type'],
    open(): Readable {
      if (awaitingContinue.delete(request)) response.writeContinue();
      const body = requestBody(request, response);
      return check ? pipeline(body, check, () => undefined) : body;
    },
    get failure(): AppError | undefined {
      return check?.errored instanceof AppError ? check.errored : undefined;
    },
    [Symbol.dispose]: () => arriving[Symbol.dispose](),
  };
}
