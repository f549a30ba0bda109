/** The error catalogue: every code a client can see, with its status. `docs/errors.md` is checked against it. */
import { type Static, Type } from 'typebox';

export const ERRORS = {
  invalid_request: { status: 400, means: 'The request is invalid; `details.issues` names each wrong field.' },
  unauthorized: { status: 401, means: 'The API key is missing, malformed, unknown, revoked or expired.' },
  forbidden: { status: 403, means: 'The key lacks a scope (`details.requiredScope`) or may not use the project.' },
  permission_denied: {
    status: 403,
    means:
      'The user of the operation has no permission for the file at `details.path`; `user=root` has every permission.',
  },
  not_found: { status: 404, means: 'There is no such resource, or it belongs to another organization.' },
  method_not_allowed: { status: 405, means: 'The path does not have this method; `Allow` lists its methods.' },
  sandbox_destroyed: {
    status: 409,
    means: 'The operation needs a live sandbox, but this sandbox is destroyed; create another one.',
  },
  sandbox_failed: { status: 409, means: 'The sandbox failed (`details.reason`); create another one.' },
  idempotency_request_in_progress: {
    status: 409,
    means: 'The first request with this `Idempotency-Key` is still running; repeat it after `Retry-After` seconds.',
  },
  idempotency_key_reused: {
    status: 409,
    means: 'This `Idempotency-Key` was already used with a different body; use a new key.',
  },
  conflict: { status: 409, means: 'The state of the resource does not allow the operation.' },
  precondition_failed: { status: 412, means: 'The condition in `If-Match` or `If-None-Match` is not met.' },
  payload_too_large: { status: 413, means: 'The body is larger than the operation accepts.' },
  unsupported_media_type: {
    status: 415,
    means: 'The operation does not accept the media type of the body.',
  },
  range_not_satisfiable: { status: 416, means: 'The range begins after the last byte; `Content-Range` has the size.' },
  sandbox_ttl_exceeded: {
    status: 422,
    means: 'The lifetime is too long; `details.maxTtlMs` is the longest that is accepted now.',
  },
  quota_exceeded: { status: 429, means: 'A quota is used up; `details` has `quota`, `limit` and `used`.' },
  rate_limited: { status: 429, means: 'There were too many requests; repeat this one after `Retry-After` seconds.' },
  internal: { status: 500, means: 'The service failed; its log has the cause under the request id.' },
  unavailable: {
    status: 503,
    means:
      'The service is stopping, is at capacity, or waits for one of its components; repeat the request after `Retry-After` seconds.',
  },
  disk_full: { status: 507, means: 'The disk of the sandbox is full, or has no inodes left.' },
} as const satisfies Record<string, { status: number; means: string }>;

export type ErrorCode = keyof typeof ERRORS;
export const ERROR_CODES = Object.keys(ERRORS) as ErrorCode[];

/** A wrong field of a request. */
export const Issue = Type.Object({
  path: Type.String({
    description: 'Path of the field, such as `body.metadata.team`, `query.limit` or `headers.idempotency-key`.',
  }),
  message: Type.String({ description: 'What is wrong, or what the field must be.' }),
});
export type Issue = Static<typeof Issue>;

export const ErrorBody = Type.Object(
  {
    error: Type.Object({
      code: Type.Unsafe<ErrorCode>({ type: 'string', enum: ERROR_CODES }),
      message: Type.String({
        description: 'Explains for people what is wrong, in which field, and how to correct it. Programs match `code`.',
      }),
      requestId: Type.String({ description: 'Id of the request, as in the header `X-Request-Id`.' }),
      details: Type.Optional(
        Type.Record(Type.String(), Type.Unknown(), {
          description: 'Facts for programs. `invalid_request` has `issues`, a list of `{ path, message }`.',
        }),
      ),
    }),
  },
  {
    $id: 'Error',
    examples: [
      {
        error: {
          code: 'invalid_request',
          message: 'body.ttlMs must be a whole number, not a string',
          requestId: 'req_0123456789abcdefghjk',
          details: { issues: [{ path: 'body.ttlMs', message: 'must be a whole number, not a string' }] },
        },
      },
    ],
  },
);
export type ErrorBody = Static<typeof ErrorBody>;
