import type { Readable } from 'node:stream';
import type { BodyOf, EventOf, Operation, ParamsOf, QueryOf, ResponseOf } from '@cloche/contract';
import type { Call } from '../call/call.ts';
import type { Credential } from '../keys/credential.ts';
import type { ListCursors } from './list-cursors.ts';
import type { Spool } from './spooled-list.ts';

/** An authenticated request that has the operation's scope and matches the contract's schemas. */
export interface RequestContext<O extends Operation = Operation> {
  readonly call: Call;
  readonly params: ParamsOf<O>;
  readonly query: QueryOf<O>;
  readonly body: BodyOf<O>;
  /** The result of the route's `lookAhead`; undefined if it was not called. */
  readonly lookedUp?: unknown;
  /** Id of the last event that a client received before it resumed the stream. */
  readonly lastEventId: string | undefined;
  /** Writes a large answer to a file while it is gathered. */
  readonly spool: Spool;
  /** Writes and reads the cursors of lists. */
  readonly cursors: ListCursors;
}

/**
 * Starts reading what the handler will need, while the database decides the claim of the request. So a hot run on
 * PostgreSQL waits for two answers in place of three. It must have no effect and must not
 * throw, because the handler may never be called.
 */
export type LookAhead<O extends Operation> = (
  credential: Credential,
  request: Pick<RequestContext<O>, 'params' | 'body'>,
) => unknown;

export type JsonHandler<O extends Operation> = (request: RequestContext<O>) => Promise<ResponseOf<O>>;

/**
 * Resolves once the work is accepted, then yields the events. A rejection before that is sent as plain JSON. The last
 * event must be the operation's `complete`; a thrown `AppError` ends the stream with an `error` event.
 */
export type StreamHandler<O extends Operation> = (request: RequestContext<O>) => Promise<AsyncIterable<EventOf<O>>>;

/** A request body that has not been read yet. */
export interface Upload {
  /** Size according to the client, if the client states it. */
  readonly sizeBytes: number | undefined;
  readonly contentType: string | undefined;
  /** Returns the bytes, and sends `100 Continue` to a client that waits for it. Call it once. */
  open(): Readable;
}

export interface UploadRequest<O extends Operation> extends RequestContext<O> {
  /** Request headers that the operation declares. */
  readonly headers: Readonly<Record<string, string>>;
  readonly upload: Upload;
}

export interface DownloadRequest<O extends Operation> extends RequestContext<O> {
  /** Request headers that the operation declares. */
  readonly headers: Readonly<Record<string, string>>;
  /** Whether the client requests only the headers. */
  readonly headOnly: boolean;
}

/** The response to a download. The handler ends `body` when the request's signal aborts. */
export interface Download {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: Readable;
}

/** Resolves once it has read the whole body, or rejects earlier. The signal aborts when the client disconnects. */
export type UploadHandler<O extends Operation> = (
  request: UploadRequest<O>,
) => Promise<{ readonly json: ResponseOf<O>; readonly headers?: Readonly<Record<string, string>> }>;

/** A body that is received before its request is executed, so that `Idempotency-Key` can compare it. */
export interface ReceivedBody extends AsyncDisposable {
  /** JSON value that two bodies share only if they are the same. */
  readonly fingerprint: unknown;
}

/** Resolves once it has read the whole body, or rejects earlier. Must have no effect outlasting the disposal. */
export type BodyReceiver<O extends Operation, Body extends ReceivedBody> = (request: UploadRequest<O>) => Promise<Body>;
export type ReceivedHandler<O extends Operation, Body extends ReceivedBody> = (
  request: RequestContext<O>,
  body: Body,
) => Promise<ResponseOf<O>>;
export type DownloadHandler<O extends Operation> = (request: DownloadRequest<O>) => Promise<Download>;

/** A client's WebSocket, with the methods that handlers need. */
export interface ClientSocket {
  /** Sends bytes or text. Calls `hasRoom` when there is room for more, at once or later. */
  send(data: Buffer | string, hasRoom?: () => void): void;
  onMessage(take: (data: Buffer | string) => void): void;
  /** Registers `act` to be called once, when either side has closed the WebSocket. */
  onClose(act: () => void): void;
  /** @param reason why, for a client that must not connect again at once */
  close(reason?: { readonly code: number; readonly text: string }): void;
}

/** A session that a handler has opened for a client. It is disposed of only if the client does not come. */
export interface SocketSession extends Disposable {
  serve(client: ClientSocket): void;
}

/** Resolves when the WebSocket may be opened. A rejection before that is sent as plain JSON. */
export type SocketHandler<O extends Operation> = (request: RequestContext<O>) => Promise<SocketSession>;

export type Route =
  | { readonly kind: 'socket'; readonly operation: Operation; readonly handle: SocketHandler<Operation> }
  | { readonly kind: 'upload'; readonly operation: Operation; readonly handle: UploadHandler<Operation> }
  | {
      readonly kind: 'receivedUpload';
      readonly operation: Operation;
      readonly receive: BodyReceiver<Operation, ReceivedBody>;
      readonly handle: ReceivedHandler<Operation, ReceivedBody>;
    }
  | { readonly kind: 'download'; readonly operation: Operation; readonly handle: DownloadHandler<Operation> }
  | {
      readonly kind: 'json';
      readonly operation: Operation;
      readonly handle: JsonHandler<Operation>;
      readonly lookAhead?: LookAhead<Operation> | undefined;
    }
  | {
      readonly kind: 'stream';
      readonly operation: Operation;
      readonly handle: StreamHandler<Operation>;
      readonly lookAhead?: LookAhead<Operation> | undefined;
    };

/**
 * Binds a handler to its operation. The casts are sound: `http/app.ts` validates each part against the operation's
 * schemas.
 */
export function route<const O extends Operation>(
  operation: O,
  handle: JsonHandler<O>,
  lookAhead?: LookAhead<O>,
): Route {
  return {
    kind: 'json',
    operation,
    handle: handle as unknown as JsonHandler<Operation>,
    lookAhead: lookAhead as unknown as LookAhead<Operation> | undefined,
  };
}

export function streamRoute<const O extends Operation>(
  operation: O,
  handle: StreamHandler<O>,
  lookAhead?: LookAhead<O>,
): Route {
  return {
    kind: 'stream',
    operation,
    handle: handle as unknown as StreamHandler<Operation>,
    lookAhead: lookAhead as unknown as LookAhead<Operation> | undefined,
  };
}

export function socketRoute<const O extends Operation>(operation: O, handle: SocketHandler<O>): Route {
  return { kind: 'socket', operation, handle: handle as unknown as SocketHandler<Operation> };
}

export function uploadRoute<const O extends Operation>(operation: O, handle: UploadHandler<O>): Route {
  return { kind: 'upload', operation, handle: handle as unknown as UploadHandler<Operation> };
}

/** Binds an upload that takes an `Idempotency-Key`. The body is received first; then the request is executed. */
export function receivedUploadRoute<const O extends Operation, Body extends ReceivedBody>(
  operation: O,
  receive: BodyReceiver<O, Body>,
  handle: ReceivedHandler<O, Body>,
): Route {
  return {
    kind: 'receivedUpload',
    operation,
    receive: receive as unknown as BodyReceiver<Operation, ReceivedBody>,
    handle: handle as unknown as ReceivedHandler<Operation, ReceivedBody>,
  };
}

export function downloadRoute<const O extends Operation>(operation: O, handle: DownloadHandler<O>): Route {
  return { kind: 'download', operation, handle: handle as unknown as DownloadHandler<Operation> };
}
