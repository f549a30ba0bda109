/** Headers of responses, and constraints on request headers. */
import { ERRORS, type ErrorCode } from '../errors.ts';
import { IDEMPOTENCY_KEY_PATTERN } from '../idempotency.ts';
import { LIMITS } from '../limits.ts';
import type { Operation } from '../operation.ts';
import type { Json } from './components.ts';

const REQUEST_ID_PATTERN = '^[A-Za-z0-9._-]{1,128}$';

const text = (description: string, schema: Json = {}) => ({ description, schema: { type: 'string', ...schema } });

export const HEADERS = {
  'X-Request-Id': text('Id of the request. The log of the service contains it.', { pattern: REQUEST_ID_PATTERN }),
  'Idempotency-Replayed': text('`true` on a response that repeats an earlier one.', { const: 'true' }),
  Allow: text('Methods that the path supports.'),
  'WWW-Authenticate': text('`Bearer`.'),
  'Retry-After': text('Seconds to wait before repeating the request.', { pattern: '^[0-9]+$' }),
  'RateLimit-Policy': text(
    'Limits in a minute that apply to the request: `"name";q=number;w=seconds`, separated by commas (draft-ietf-httpapi-ratelimit-headers). A name is `organization` or the id of a project; `/sandboxes` after it stands for a limit of creations instead of requests. Missing without a limit.',
  ),
  RateLimit: text('What is left of each limit: `"name";r=number;t=seconds`, where `t` is the time until more is left.'),
  Deprecation: text('Date since which the operation is deprecated (RFC 9745).'),
  Sunset: text('Date after which the operation may be removed (RFC 8594).'),
  Link: text('The operation to use instead.'),
  ETag: text('Entity tag of the content.'),
  'Content-Range': text('Byte range of the response, and the size of the whole content.'),
  'Accept-Ranges': text('`bytes`.'),
} satisfies Record<string, Json>;
type Header = keyof typeof HEADERS;

const ON_EVERY_RESPONSE = ['X-Request-Id', 'RateLimit-Policy', 'RateLimit'] as const;

function headers(names: readonly Header[]): Json {
  return Object.fromEntries(names.map((name) => [name, { $ref: `#/components/headers/${name}` }]));
}

export function successHeaders({ idempotency, deprecation }: Operation, more: readonly Header[] = []): Json {
  return headers([
    ...ON_EVERY_RESPONSE,
    ...(idempotency === 'none' ? [] : (['Idempotency-Replayed'] as const)),
    ...(deprecation ? (['Deprecation', 'Sunset', 'Link'] as const) : []),
    ...more,
  ]);
}

const OF_ERRORS: Partial<Record<ErrorCode, Header>> = {
  method_not_allowed: 'Allow',
  unauthorized: 'WWW-Authenticate',
  range_not_satisfiable: 'Content-Range',
};

export function errorHeaders(codes: readonly ErrorCode[]): Json {
  return headers([...ON_EVERY_RESPONSE, ...new Set(codes.flatMap(headersOf))]);
}

function headersOf(code: ErrorCode): Header[] {
  const own = OF_ERRORS[code];
  return [...(own ? [own] : []), ...(ERRORS[code].retryable === 'after' ? (['Retry-After'] as const) : [])];
}

export const REQUEST_ID_PARAMETER = {
  name: 'X-Request-Id',
  in: 'header',
  required: false,
  description:
    'Your own id for the request. The service uses it if it has 1 to 128 letters, digits, dots, hyphens and underscores; ' +
    'otherwise the service generates one.',
  schema: { type: 'string' },
};

export const IDEMPOTENCY_KEY = {
  type: 'string',
  minLength: 1,
  maxLength: LIMITS.idempotencyKeyLength,
  pattern: IDEMPOTENCY_KEY_PATTERN,
};

const DIGEST = '[a-z*][a-z0-9_.*-]*=:[A-Za-z0-9+/]*={0,2}:(;[^,]*)?';
/** Patterns of request headers that operations declare. */
const REQUEST_HEADERS: Readonly<Record<string, string>> = {
  'last-event-id': '^[0-9]{1,16}$',
  'content-digest': `^[ \\t]*${DIGEST}[ \\t]*(,[ \\t]*${DIGEST}[ \\t]*)*$`,
  'file-attributes': '^\\s*\\{.*\\}\\s*$',
};

export function requestHeaderSchema(name: string): Json {
  const pattern = REQUEST_HEADERS[name];
  return { type: 'string', ...(pattern === undefined ? {} : { pattern }) };
}
