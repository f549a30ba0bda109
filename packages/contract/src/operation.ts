/** One operation of the API, declared once: routes, OpenAPI, SDK and reference pages all come from it. */
import type { Static, TObject, TSchema } from 'typebox';
import type { ErrorCode } from './errors.ts';
import type { Scope } from './scopes.ts';
import type { Tag } from './tags.ts';

export type Method = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';

/** `required`: `invalid_request` without the header. `optional`: honoured when sent. `none`: idempotent by nature. */
export type IdempotencyUse = 'none' | 'optional' | 'required';

/** Bytes instead of JSON, of any size, streamed. */
export interface RawBytes {
  /** Media types, for the document. */
  readonly contentTypes: readonly string[];
  readonly description: string;
  /** A request without a body is a good one. */
  readonly mayBeEmpty?: boolean;
}

export interface Operation {
  /** Camel case and unique: OpenAPI's operationId and the SDK's name for it. */
  readonly id: string;
  readonly method: Method;
  /** With parameters in braces, as OpenAPI writes them. */
  readonly path: string;
  readonly tag: Tag;
  readonly summary: string;
  readonly description?: string;
  readonly scope: Scope;
  /** A second scope that some bodies ask for, and when. */
  readonly extraScope?: { readonly scope: Scope; readonly when: string };
  readonly idempotency: IdempotencyUse;
  readonly params?: TObject;
  /** Request headers that it heeds besides those that all do: lower-case name → what it does. */
  readonly headers?: Readonly<Record<string, string>>;
  /** Closed: a parameter that it does not name is refused. */
  readonly query?: TObject;
  readonly body?: TSchema;
  /** How many values its body may have, where that is not `LIMITS.bodyValues`. */
  readonly bodyValues?: number;
  /** A body that may be left out altogether counts as `{}`. */
  readonly bodyOptional?: boolean;
  /** The body is bytes and not JSON: streamed, with no bound but the disk's. */
  readonly upload?: RawBytes;
  /** The answer's body is bytes; HEAD answers with its headers alone. `also` names further statuses of success. */
  readonly download?: RawBytes & { readonly also?: Readonly<Record<number, string>> };
  readonly response: { readonly status: number; readonly schema: TSchema; readonly description: string };
  /** The answer is a stream of server-sent events of this schema instead of one JSON body. */
  readonly events?: TSchema;
  /** Description of an event's id, for streams whose events have ids. `Last-Event-ID` resumes such a stream. */
  readonly eventIds?: string;
  /** The connection becomes a WebSocket; how its frames are read. */
  readonly webSocket?: string;
  /** Besides those that every operation can answer with. */
  readonly errors: readonly ErrorCode[];
  readonly deprecation?: { readonly since: Date; readonly sunset: Date; readonly successorId: string };
}

/** What every authenticated operation can answer with. */
export const COMMON_ERRORS = [
  'invalid_request',
  'unauthorized',
  'forbidden',
  'not_found',
  'method_not_allowed',
  'rate_limited',
  'internal',
  'unavailable',
] as const satisfies readonly ErrorCode[];
/** And every operation with a body or a key. */
export const BODY_ERRORS = ['payload_too_large', 'unsupported_media_type'] as const satisfies readonly ErrorCode[];
export const IDEMPOTENCY_ERRORS = [
  'idempotency_request_in_progress',
  'idempotency_key_reused',
  'quota_exceeded',
] as const satisfies readonly ErrorCode[];

/** Every code that `operation` can answer with, its own first. */
export function errorsOf(operation: Operation): ErrorCode[] {
  return [
    ...new Set([
      ...operation.errors,
      ...COMMON_ERRORS,
      ...(operation.body || operation.upload ? BODY_ERRORS : []),
      ...(operation.idempotency === 'none' ? [] : IDEMPOTENCY_ERRORS),
    ]),
  ];
}

type StaticOr<S, Otherwise> = S extends TSchema ? Static<S> : Otherwise;
export type ParamsOf<O extends Operation> = StaticOr<O['params'], Record<string, never>>;
export type QueryOf<O extends Operation> = StaticOr<O['query'], Record<string, never>>;
export type BodyOf<O extends Operation> = StaticOr<O['body'], undefined>;
export type ResponseOf<O extends Operation> = Static<O['response']['schema']>;
export type EventOf<O extends Operation> = StaticOr<O['events'], never>;
