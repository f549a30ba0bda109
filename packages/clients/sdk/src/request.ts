import type { BodyOf, Operation, OperationId, Operations, ParamsOf, QueryOf } from '@cloche/contract';
import { IDEMPOTENCY_HEADER, LIMITS, operations, type SentOperation } from '@cloche/contract/client';
import type { ResolvedOptions } from './client-options.ts';
import { ClocheError } from './cloche-error.ts';

export interface CallOptions {
  /** Aborts the call, which then rejects with the signal's reason. */
  signal?: AbortSignal | undefined;
  /** Identifies the logical operation, so that a repetition is executed once. Default: a new UUID. */
  idempotencyKey?: string | undefined;
  /** Time limit of the whole call in milliseconds, including retries. */
  timeoutMs?: number | undefined;
  /** Attempts after the first; with 0, the request is sent once. */
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
/** Headers that the operation supports, in lower case. */
type HeadersPart<Id extends OperationId> = Operations[Id] extends { headers: infer Names }
  ? { headers?: { [Name in keyof Names]?: string | undefined } }
  : unknown;
type UploadPart<Id extends OperationId> =
  Has<Id, 'upload'> extends true ? { bytes: UploadBytes; contentType?: string } : unknown;
/** Adds the schema's `patternProperties`, which its static type lacks. */
type LabelQuery<Id extends OperationId> = Id extends 'listSandboxes'
  ? { [label: `metadata.${string}`]: string }
  : unknown;

/** Request of operation `Id`, with each part typed by the contract. */
export type RequestOf<Id extends OperationId> = CallOptions &
  ParamsPart<Id> &
  QueryPart<Id> &
  BodyPart<Id> &
  HeadersPart<Id> &
  UploadPart<Id>;

/**
 * Body of an upload. A stream can be read only once, so it is not sent again after a failure. A function returns a new
 * stream for each attempt.
 */
export type UploadBytes =
  | string
  | Uint8Array
  | ArrayBuffer
  | Blob
  | ReadableStream<Uint8Array>
  | AsyncIterable<Uint8Array>
  | (() => AsyncIterable<Uint8Array>);

/** A request without the operation's types, as needed for sending it. */
export interface AnyRequest extends CallOptions {
  params?: Record<string, string>;
  query?: Record<string, unknown>;
  body?: unknown;
  headers?: Record<string, string | undefined>;
  bytes?: UploadBytes;
  contentType?: string;
}

type Body = NonNullable<RequestInit['body']>;
/** The part of a request's options that has its body. */
export interface RequestBody {
  body?: Body;
  duplex?: 'half';
}

export interface PreparedRequest {
  readonly operation: SentOperation;
  readonly url: string;
  readonly init: { method: string; headers: Record<string, string> };
  /** Returns the body. Call it once for each attempt. */
  readonly body: () => RequestBody;
  readonly idempotencyKey: string | undefined;
  /** Whether sending the request again cannot execute it twice. */
  readonly repeatable: boolean;
  readonly timeoutMs: number;
  readonly maxRetries: number;
  readonly retryDelayMs: number;
}

/** Prepares everything that the attempts of one logical operation share, including the Idempotency-Key. */
export function prepareRequest(id: OperationId, request: AnyRequest, options: ResolvedOptions): PreparedRequest {
  const operation = operations[id];
  const takesKey = operation.idempotency !== 'none';
  const idempotencyKey = takesKey ? (request.idempotencyKey ?? newKey()) : undefined;
  const body = request.body === undefined ? undefined : JSON.stringify(request.body);
  const isUsedUp = isStream(request.bytes);
  return {
    operation,
    url: requestUrl(options.url, operation, request),
    init: {
      method: operation.method,
      headers: {
        accept: acceptOf(operation),
        ...definedOf(request.headers),
        ...(request.bytes === undefined ? {} : { 'content-type': request.contentType ?? 'application/octet-stream' }),
        authorization: `Bearer ${options.apiKey}`,
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        ...(idempotencyKey === undefined ? {} : { [IDEMPOTENCY_HEADER]: idempotencyKey }),
      },
    },
    body: () => (body === undefined ? uploadBody(request.bytes) : { body }),
    idempotencyKey,
    repeatable: !isUsedUp && (operation.method !== 'POST' || takesKey),
    timeoutMs: request.timeoutMs ?? ownTimeMs(id, operation, request) + options.timeoutMs,
    maxRetries: isUsedUp ? 0 : (request.maxRetries ?? options.maxRetries),
    retryDelayMs: options.retryDelayMs,
  };
}

/** Pages that a browser got over plain HTTP from another machine have no `crypto.randomUUID`. */
function newKey(): string {
  if (typeof crypto.randomUUID === 'function') return crypto.randomUUID();
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, '0')).join('');
}

/** Returns how long the operation may take by its own rules before it responds, in milliseconds. */
function ownTimeMs(id: OperationId, operation: SentOperation, { body, query }: AnyRequest): number {
  // The time of an upload depends on its size and the network, so it has no limit.
  if (operation.upload) return Number.POSITIVE_INFINITY;
  const given = (body as { timeoutMs?: number; contextId?: string; background?: boolean } | undefined) ?? {};
  switch (id) {
    case 'runCode':
    case 'streamCode':
      // A context may have its own default, which is not known here.
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

function acceptOf({ events, download }: SentOperation): string {
  if (events) return 'text/event-stream';
  return download ? '*/*' : 'application/json';
}

function definedOf(headers: Readonly<Record<string, string | undefined>> = {}): Record<string, string> {
  const defined = Object.entries(headers).filter((entry): entry is [string, string] => entry[1] !== undefined);
  return Object.fromEntries(defined);
}

/** Returns the body for one attempt to send the bytes. */
export function uploadBody(bytes: UploadBytes | undefined): RequestBody {
  if (bytes === undefined) return {};
  const opened = typeof bytes === 'function' ? bytes() : bytes;
  // `fetch` accepts all other kinds.
  return isStream(opened) ? { body: streamOf(opened), duplex: 'half' } : { body: opened as Body };
}

type Stream = ReadableStream<Uint8Array> | AsyncIterable<Uint8Array>;

/** Returns whether the bytes arrive in pieces, which can be read once. */
function isStream(bytes: UploadBytes | undefined): bytes is Stream {
  return bytes instanceof ReadableStream || (typeof bytes === 'object' && Symbol.asyncIterator in bytes);
}

function streamOf(bytes: Stream): ReadableStream<Uint8Array> {
  if (bytes instanceof ReadableStream) return bytes;
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

function requestUrl(base: string, operation: SentOperation, { params = {}, query = {} }: AnyRequest): string {
  const path = operation.path.replace(/\{(\w+)\}/g, (_, name: string) => pathSegment(name, params[name]));
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) if (value !== undefined) search.append(name, String(value));
  const text = search.toString();
  return `${base}${path}${text === '' ? '' : `?${text}`}`;
}

/**
 * Encodes a path segment. Refuses an empty or dotted one, which would name another resource: `DELETE …/sandboxes/..`.
 */
function pathSegment(name: string, value: string | undefined): string {
  if (value === undefined || /^\.{0,2}$/.test(value)) {
    throw new ClocheError('invalid_options', `${name} is "${value ?? ''}"; give the identifier that the service gave.`);
  }
  return encodeURIComponent(value);
}
