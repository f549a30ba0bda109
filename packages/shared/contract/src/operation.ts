/** The type of an API operation. Each is declared once; routes, OpenAPI, SDK and reference pages derive from it. */
import type { Static, TObject, TSchema } from 'typebox';
import type { ErrorCode } from './errors.ts';
import type { Scope } from './scopes.ts';
import type { Tag } from './tags.ts';

export type Method = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';

/**
 * `required`: a request without the header is `invalid_request`. `optional`: the header is used if it is sent. `none`:
 * the operation is idempotent without it.
 */
export type IdempotencyUse = 'none' | 'optional' | 'required';

/** A streamed body of bytes instead of JSON, of any size. */
export interface RawBytes {
  /** Media types, for the OpenAPI document. */
  readonly contentTypes: readonly string[];
  readonly description: string;
  /** Whether the body may be missing. */
  readonly mayBeEmpty?: boolean;
}

export interface Operation {
  /** Unique, in camel case: the operationId in OpenAPI and the operation's name in the SDK. */
  readonly id: string;
  readonly method: Method;
  /** Path with parameters in braces, as in OpenAPI. */
  readonly path: string;
  readonly tag: Tag;
  readonly summary: string;
  readonly description?: string;
  /** The scope that the key needs; null if every key may. */
  readonly scope: Scope | null;
  /** Path parameter: a key needs no scope if the parameter has its own id. */
  readonly scopeExempt?: string;
  /** A second scope that some bodies require, and the condition. */
  readonly extraScope?: { readonly scope: Scope; readonly when: string };
  readonly idempotency: IdempotencyUse;
  /** The response has a secret: it is stored for replay only encrypted, under a key that only its caller can derive. */
  readonly secretAnswer?: boolean;
  /** The body contains a secret. The stored replay record holds neither the secret nor a hash to check a guess against. */
  readonly secretBody?: boolean;
  readonly params?: TObject;
  /** Request headers that this operation supports in addition to the common ones: lower-case name → meaning. */
  readonly headers?: Readonly<Record<string, string>>;
  /** Query parameters. Any other parameter is refused. */
  readonly query?: TObject;
  readonly body?: TSchema;
  /** Maximum number of values in the body. Default: `LIMITS.bodyValues`. */
  readonly bodyValues?: number;
  /** Whether the body may be missing; a missing body counts as `{}`. */
  readonly bodyOptional?: boolean;
  /**
   * The request body is bytes instead of JSON. It is streamed; its limit is the disk, unless its description has one.
   */
  readonly upload?: RawBytes;
  /** The response body is bytes; HEAD returns only its headers. `also` lists further success statuses. */
  readonly download?: RawBytes & { readonly also?: Readonly<Record<number, string>> };
  readonly response: { readonly status: number; readonly schema: TSchema; readonly description: string };
  /** The response is a stream of server-sent events of this schema instead of one JSON body. */
  readonly events?: TSchema;
  /** Description of an event's id, for streams whose events have ids. `Last-Event-ID` resumes such a stream. */
  readonly eventIds?: string;
  /** The connection becomes a WebSocket; this describes its messages. */
  readonly webSocket?: string;
  /** Errors in addition to those that every operation can return. */
  readonly errors: readonly ErrorCode[];
  readonly deprecation?: { readonly since: Date; readonly sunset: Date; readonly successorId: string };
}

/** Description of the `content-digest` header of uploads. */
export const CONTENT_DIGEST =
  'Digests of the body, as `sha-256=:<base64>:` or `sha-512=:<base64>:` (RFC 9530); other algorithms are ignored. If the ' +
  'body has another digest, the error is `invalid_request`, and nothing is stored.';

/** Statuses of operations that create something: at once, or soon. */
const CREATING: readonly number[] = [201, 202];

/** Returns whether `operation` keeps more than before, so that it is refused when the disk of the service is short. */
export function takesSpace({ method, upload, response }: Operation): boolean {
  return upload !== undefined || method === 'PUT' || (method === 'POST' && CREATING.includes(response.status));
}

type StaticOr<S, Otherwise> = S extends TSchema ? Static<S> : Otherwise;
export type ParamsOf<O extends Operation> = StaticOr<O['params'], Record<string, never>>;
export type QueryOf<O extends Operation> = StaticOr<O['query'], Record<string, never>>;
export type BodyOf<O extends Operation> = StaticOr<O['body'], undefined>;
export type ResponseOf<O extends Operation> = Static<O['response']['schema']>;
export type EventOf<O extends Operation> = StaticOr<O['events'], never>;
