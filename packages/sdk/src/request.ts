import {
  type BodyOf,
  IDEMPOTENCY_HEADER,
  LIMITS,
  type Operation,
  type OperationId,
  type Operations,
  operations,
  type ParamsOf,
  type QueryOf,
} from '@cloche/contract';
import type { ResolvedOptions } from './client-options.ts';
import { ClocheError } from './cloche-error.ts';

export interface CallOptions {
  /** Ends the call; it then rejects with the signal's reason. */
  signal?: AbortSignal | undefined;
  /** Names the logical operation, so that repeating it does it once. One is made where left out. */
  idempotencyKey?: string | undefined;
  /** Milliseconds for the whole call, retries included. */
  timeoutMs?: number | undefined;
  /** Attempts after the first; 0 sends the request once. */
  maxRetries?: number | undefined;
}

type Has<Id extends OperationId, Part extends keyof Operation> = Part extends keyof Operations[Id] ? true : false;
type ParamsPart<Id extends OperationId> =
  Has<Id, 'params'> extends true ? { params: ParamsOf<Operations[Id]> } : unknown;
type QueryPart<Id extends OperationId> =
  Has<Id, 'query'> extends true ? { query?: QueryOf<Operations[Id]> & LabelQuery<Id> } : unknown;
type BodyPart<Id extends OperationId> =
  Has<Id, 'bodyOptional'> extends true
    ? { body?: BodyOf<Operations[Id]> }
    : Has<Id, 'body'> extends true
      ? { body: BodyOf<Operations[Id]> }
      : unknown;
/** The headers that the operation heeds, in lower case. */
type HeadersPart<Id extends OperationId> = Operations[Id] extends { headers: infer Names }
  ? { headers?: { [Name in keyof Names]?: string | undefined } }
  : unknown;
type UploadPart<Id extends OperationId> = Has<Id, 'upload'> extends true ? { bytes: UploadBytes } : unknown;
/** The schema's `patternProperties`, which its static type leaves out. */
type LabelQuery<Id extends OperationId> = Id extends 'listSandboxes'
  ? { [label: `metadata.${string}`]: string }
  : unknown;

/** What operation `Id` needs, each part typed by the contract. */
export type RequestOf<Id extends OperationId> = CallOptions &
  ParamsPart<Id> &
  QueryPart<Id> &
  BodyPart<Id> &
  HeadersPart<Id> &
  UploadPart<Id>;

/** What an upload sends. A stream is read once, so it is not sent again where the connection breaks. */
export type UploadBytes =
  | string
  | Uint8Array
  | ArrayBuffer
  | Blob
  | ReadableStream<Uint8Array>
  | AsyncIterable<Uint8Array>;

/** A request with its types forgotten: what the wire needs of it. */
export interface AnyRequest extends CallOptions {
  params?: Record<string, string>;
  query?: Record<string, unknown>;
  body?: unknown;
  headers?: Record<string, string | undefined>;
  bytes?: UploadBytes;
}

type Body = NonNullable<RequestInit['body']>;

export interface PreparedRequest {
  readonly operation: Operation;
  readonly url: string;
  readonly init: { method: string; headers: Record<string, string>; body?: Body; duplex?: 'half' };
  readonly idempotencyKey: string | undefined;
  /** Whether sending it again cannot do it twice. */
  readonly repeatable: boolean;
  readonly timeoutMs: number;
  readonly maxRetries: number;
  readonly retryDelayMs: number;
}

/** Settles all that the attempts of one logical operation share, its Idempotency-Key first of all. */
export function prepareRequest(id: OperationId, request: AnyRequest, options: ResolvedOptions): PreparedRequest {
  const operation: Operation = operations[id];
  const takesKey = operation.idempotency !== 'none';
  const idempotencyKey = takesKey ? (request.idempotencyKey ?? crypto.randomUUID()) : undefined;
  const body = request.body === undefined ? undefined : JSON.stringify(request.body);
  const streamed = streamOf(request.bytes);
  return {
    operation,
    url: requestUrl(options.url, operation, request),
    init: {
      method: operation.method,
      headers: {
        accept: acceptOf(operation),
        ...definedOf(request.headers),
        ...(request.bytes === undefined ? {} : { 'content-type': 'application/octet-stream' }),
        authorization: `Bearer ${options.apiKey}`,
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        ...(idempotencyKey === undefined ? {} : { [IDEMPOTENCY_HEADER]: idempotencyKey }),
      },
      ...(body === undefined ? {} : { body }),
      ...(streamed
        ? { body: streamed, duplex: 'half' }
        : request.bytes === undefined
          ? {}
          : { body: request.bytes as Body }),
    },
    idempotencyKey,
    repeatable: !streamed && (operation.method !== 'POST' || takesKey),
    timeoutMs: request.timeoutMs ?? ownTimeMs(id, operation, request) + options.timeoutMs,
    maxRetries: streamed ? 0 : (request.maxRetries ?? options.maxRetries),
    retryDelayMs: options.retryDelayMs,
  };
}

/** Milliseconds that the operation may take by its own rules before it answers. */
function ownTimeMs(id: OperationId, operation: Operation, { body, query }: AnyRequest): number {
  // As long as bytes move, nobody can tell how long it takes.
  if (operation.upload) return Number.POSITIVE_INFINITY;
  const given = (body as { timeoutMs?: number; contextId?: string; background?: boolean } | undefined) ?? {};
  switch (id) {
    case 'runCode':
    case 'streamCode':
      // A context may have a default of its own, which is not known here.
      return given.timeoutMs ?? (given.contextId === undefined ? LIMITS.runTimeoutDefaultMs : LIMITS.runTimeoutMaxMs);
    case 'createContext':
      return given.timeoutMs ?? LIMITS.contextTimeoutDefaultMs;
    case 'createCommand':
    case 'runCommand':
      return given.background ? 0 : (given.timeoutMs ?? LIMITS.commandTimeoutDefaultMs);
    case 'getCommand':
      return Number(query?.waitMs ?? 0);
    case 'getSandbox':
      return query?.waitFor === undefined ? 0 : Number(query.waitMs ?? LIMITS.waitDefaultMs);
    default:
      return 0;
  }
}

function acceptOf({ events, download }: Operation): string {
  if (events) return 'text/event-stream';
  return download ? '*/*' : 'application/json';
}

function definedOf(headers: Readonly<Record<string, string | undefined>> = {}): Record<string, string> {
  const defined = Object.entries(headers).filter((entry): entry is [string, string] => entry[1] !== undefined);
  return Object.fromEntries(defined);
}

/** What is read piece by piece; undefined for what is there as a whole. */
function streamOf(bytes: UploadBytes | undefined): ReadableStream<Uint8Array> | undefined {
  if (bytes instanceof ReadableStream) return bytes;
  if (typeof bytes !== 'object' || !(Symbol.asyncIterator in bytes)) return undefined;
  const iterator = bytes[Symbol.asyncIterator]();
  return new ReadableStream<Uint8Array>({
    async pull(controller) {
      const { done, value } = await iterator.next();
      if (done) controller.close();
      else controller.enqueue(value);
    },
    async cancel() {
      await iterator.return?.();
    },
  });
}

function requestUrl(base: string, operation: Operation, { params = {}, query = {} }: AnyRequest): string {
  const path = operation.path.replace(/\{(\w+)\}/g, (_, name: string) => pathSegment(name, params[name]));
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) if (value !== undefined) search.append(name, String(value));
  const text = search.toString();
  return `${base}${path}${text === '' ? '' : `?${text}`}`;
}

/** An empty or dotted segment would name another resource: `DELETE …/sandboxes/..`. */
function pathSegment(name: string, value: string | undefined): string {
  if (value === undefined || /^\.{0,2}$/.test(value)) {
    throw new ClocheError('invalid_options', `${name} is "${value ?? ''}"; give the identifier that the service gave.`);
  }
  return encodeURIComponent(value);
}
