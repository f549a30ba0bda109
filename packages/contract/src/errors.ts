/** The error catalogue: every code a client can see, with its status. `docs/errors.md` is checked against it. */
import { type Static, Type } from 'typebox';

export const ERRORS = {
  invalid_request: { status: 400, means: 'A part of the request is wrong; `details.issues` names each.' },
  unauthorized: { status: 401, means: 'The API key is missing, malformed, unknown, revoked or expired.' },
  forbidden: { status: 403, means: 'The key lacks a scope (`details.requiredScope`) or may not use the project.' },
  not_found: { status: 404, means: 'Unknown, or of another organization.' },
  method_not_allowed: { status: 405, means: 'The path exists with the methods that `Allow` names.' },
  sandbox_destroyed: { status: 409, means: 'The operation needs a live sandbox and this one is destroyed.' },
  sandbox_failed: { status: 409, means: 'The sandbox failed (`details.reason`); create another.' },
  idempotency_request_in_progress: {
    status: 409,
    means: 'The first request with this Idempotency-Key still runs; retry after `Retry-After`.',
  },
  idempotency_key_reused: { status: 409, means: 'This Idempotency-Key belongs to a request with another body.' },
  conflict: { status: 409, means: 'The state of the resource does not allow it.' },
  precondition_failed: { status: 412, means: '`If-Match` or `If-None-Match` does not hold.' },
  payload_too_large: { status: 413, means: 'The body is larger than the operation takes.' },
  unsupported_media_type: {
    status: 415,
    means: 'The body must be `application/json`, or of a form that the operation takes.',
  },
  range_not_satisfiable: { status: 416, means: 'The range begins after the last byte; `Content-Range` has the size.' },
  sandbox_ttl_exceeded: {
    status: 422,
    means: 'The lifetime breaks a cap; `details.maxTtlMs` is the most that would be accepted now.',
  },
  quota_exceeded: { status: 429, means: 'A quota is used up: `details` has `quota`, `limit` and `used`.' },
  rate_limited: { status: 429, means: 'Too many requests; retry after `Retry-After`.' },
  internal: { status: 500, means: 'A fault of the service; the request id finds it in the log.' },
  unavailable: { status: 503, means: 'Draining, out of capacity, or a part is down; retry after `Retry-After`.' },
  disk_full: { status: 507, means: "The sandbox's disk or its inodes are used up." },
} as const satisfies Record<string, { status: number; means: string }>;

export type ErrorCode = keyof typeof ERRORS;
export const ERROR_CODES = Object.keys(ERRORS) as ErrorCode[];

/** One wrong place in a request: `path` is dotted from its part, as in `body.metadata.team` or `headers.idempotency-key`. */
export const Issue = Type.Object({ path: Type.String(), message: Type.String() });
export type Issue = Static<typeof Issue>;

export const ErrorBody = Type.Object(
  {
    error: Type.Object({
      code: Type.Unsafe<ErrorCode>({ type: 'string', enum: ERROR_CODES }),
      message: Type.String({ description: 'What is wrong, in which field, and what to do about it.' }),
      requestId: Type.String(),
      details: Type.Optional(Type.Record(Type.String(), Type.Unknown())),
    }),
  },
  { $id: 'Error' },
);
export type ErrorBody = Static<typeof ErrorBody>;
