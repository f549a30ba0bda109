/**
 * The error catalogue: every code that a client can see. The server's responses, the OpenAPI document and the SDK's
 * retries and types derive from it; `docs/errors.md` is checked against it.
 */
import { type Static, type TSchema, Type } from 'typebox';
import { oneOf } from './list.ts';
import { WAKE_MODES } from './pause-policy.ts';
import { DESTROYED_REASONS } from './sandbox.ts';

/** An invalid field of a request. */
export const Issue = Type.Object({
  path: Type.String({
    description: 'Path of the field, such as `body.metadata.team`, `query.limit` or `headers.idempotency-key`.',
  }),
  message: Type.String({ description: 'What is wrong, or what the field must be.' }),
});
export type Issue = Static<typeof Issue>;

interface ErrorEntry {
  readonly status: number;
  /**
   * Whether the same request may succeed later. `after`: yes, after the seconds in `Retry-After`. `true`: yes, if
   * executing it twice does no harm. `false`: not until the request or the state of the resource changes.
   */
  readonly retryable: boolean | 'after';
  /** Schema of `details`; undefined if the error has none. */
  readonly details: TSchema | undefined;
  readonly summary: string;
}

/** Code that closes a WebSocket whose sandbox was paused. Codes from 4000 on are an application's own (RFC 6455, 7.4.2). */
export const PAUSED_CLOSE_CODE = 4410;

export const ERRORS = {
  invalid_request: {
    status: 400,
    retryable: false,
    details: Type.Object({ issues: Type.Array(Issue) }),
    summary: 'The request is invalid; `details.issues` names each wrong field.',
  },
  unauthorized: {
    status: 401,
    retryable: false,
    details: undefined,
    summary: 'The API key is missing, malformed, unknown, revoked or expired.',
  },
  forbidden: {
    status: 403,
    retryable: false,
    details: Type.Object({
      requiredScope: Type.Optional(
        Type.String({ description: 'The scope that the operation needs and the key lacks.' }),
      ),
      missing: Type.Optional(
        Type.Array(Type.String(), {
          description:
            'What the calling key lacks to grant or to change another key: scopes, ids of projects, `projectIds` for ' +
            'every project, `expiresAt` for the lifetime.',
        }),
      ),
    }),
    summary:
      'The key lacks a scope (`details.requiredScope`), may not use the project, or has less than the key that it ' +
      'creates or changes (`details.missing`).',
  },
  permission_denied: {
    status: 403,
    retryable: false,
    details: Type.Object({ path: Type.String({ description: 'The file that the user lacks the rights to.' }) }),
    summary:
      'The user of the operation has no permission for the file at `details.path`; `user=root` has every permission.',
  },
  not_found: {
    status: 404,
    retryable: false,
    details: Type.Object({
      resource: Type.Optional(
        Type.String({
          description: 'Kind of the resource that the id names, such as `sandbox`; absent for a file of a sandbox.',
        }),
      ),
    }),
    summary: 'There is no such resource, or it belongs to another organization.',
  },
  method_not_allowed: {
    status: 405,
    retryable: false,
    details: undefined,
    summary: 'The path does not have this method; `Allow` lists its methods.',
  },
  sandbox_destroyed: {
    status: 409,
    retryable: false,
    details: Type.Object({
      reason: Type.Optional(oneOf(DESTROYED_REASONS, 'Why the sandbox was destroyed, as in `destroyedReason`.')),
    }),
    summary:
      'The operation needs a live sandbox, but this sandbox is destroyed (`details.reason`); create another one.',
  },
  sandbox_failed: {
    status: 409,
    retryable: false,
    details: Type.Object({
      reason: Type.String({ description: 'Why the sandbox failed, as in `failureReason`: a text for people.' }),
    }),
    summary: 'The sandbox failed (`details.reason`); create another one.',
  },
  sandbox_paused: {
    status: 409,
    retryable: false,
    details: Type.Object({
      wake: oneOf(WAKE_MODES, 'What wakes the sandbox beside `resume`, as in `pause.wake`.'),
      memory: oneOf(
        ['kept', 'lost'],
        '`kept`: its processes and variables go on after the wake. `lost`: files alone are kept.',
      ),
    }),
    summary: 'The operation needs a sandbox that is not paused; resume it first.',
  },
  sandbox_incompatible: {
    status: 409,
    retryable: false,
    details: undefined,
    summary:
      'The sandbox lives, but the running version of the service cannot work with it; it can be read, listed and deleted.',
  },
  idempotency_request_in_progress: {
    status: 409,
    retryable: 'after',
    details: undefined,
    summary: 'The first request with this `Idempotency-Key` is still running; repeat it after `Retry-After` seconds.',
  },
  idempotency_key_reused: {
    status: 409,
    retryable: false,
    details: undefined,
    summary: 'This `Idempotency-Key` was already used with a different body; use a new key.',
  },
  conflict: {
    status: 409,
    retryable: false,
    details: Type.Object({
      liveSandboxes: Type.Optional(
        Type.Integer({ minimum: 0, description: 'Sandboxes of the project that have not ended.' }),
      ),
      workspaceRuns: Type.Optional(
        Type.Integer({ minimum: 0, description: 'Workspace runs of the project that have not finished.' }),
      ),
      status: Type.Optional(
        Type.String({ description: 'Status of the workspace run, which does not allow the operation.' }),
      ),
      templates: Type.Optional(
        Type.Integer({ minimum: 0, description: 'Other templates that are made from the template.' }),
      ),
      builds: Type.Optional(Type.Integer({ minimum: 0, description: 'Builds of the template that have not ended.' })),
      running: Type.Optional(
        Type.Integer({ minimum: 1, description: 'Code runs and waited commands of the sandbox that are in progress.' }),
      ),
      sandboxId: Type.Optional(Type.String({ description: 'The sandbox that has the name.' })),
      differs: Type.Optional(
        Type.Array(Type.String(), {
          description: 'Fields of the body that the sandbox with the name differs in, such as `networkPolicy`.',
        }),
      ),
      reason: Type.Optional(
        oneOf(['memory_unsupported'], '`memory_unsupported`: the memory of the sandbox cannot be kept.'),
      ),
    }),
    summary: 'The state of the resource does not allow the operation.',
  },
  precondition_failed: {
    status: 412,
    retryable: false,
    details: undefined,
    summary: 'The condition in `If-Match` or `If-None-Match` is not met.',
  },
  payload_too_large: {
    status: 413,
    retryable: false,
    details: undefined,
    summary: 'The body is larger than the operation accepts.',
  },
  unsupported_media_type: {
    status: 415,
    retryable: false,
    details: undefined,
    summary: 'The operation does not accept the media type of the body.',
  },
  range_not_satisfiable: {
    status: 416,
    retryable: false,
    details: Type.Object({
      sizeBytes: Type.Integer({ minimum: 0, description: 'Size of the whole content in bytes.' }),
    }),
    summary: 'The range begins after the last byte; `Content-Range` and `details.sizeBytes` have the size.',
  },
  sandbox_ttl_exceeded: {
    status: 422,
    retryable: false,
    details: Type.Object({
      maxTtlMs: Type.Integer({ description: 'The longest lifetime that is accepted now, in milliseconds.' }),
    }),
    summary: 'The lifetime is too long; `details.maxTtlMs` is the longest that is accepted now.',
  },
  quota_exceeded: {
    status: 429,
    retryable: false,
    details: Type.Object({
      quota: Type.String({
        description:
          'What is used up: the name of a quota of the organization or the project, such as `liveSandboxes`, or `resources.pids`, `api_keys`, `projects`, `templates`, `template_builds`, `workspace_runs`, `workspace_archives`, `replay_bytes`.',
      }),
      limit: Type.Number(),
      used: Type.Number(),
    }),
    summary: 'A quota is used up; `details` has `quota`, `limit` and `used`.',
  },
  rate_limited: {
    status: 429,
    retryable: 'after',
    details: undefined,
    summary: 'There were too many requests; repeat this one after `Retry-After` seconds.',
  },
  internal: {
    status: 500,
    retryable: true,
    details: undefined,
    summary: 'The service failed; its log has the cause under the request id.',
  },
  unavailable: {
    status: 503,
    retryable: 'after',
    details: undefined,
    summary:
      'The service is stopping, is at capacity, or waits for one of its components; repeat the request after `Retry-After` seconds.',
  },
  disk_full: {
    status: 507,
    retryable: false,
    details: undefined,
    summary: 'The disk of the sandbox is full, or has no inodes left.',
  },
} as const satisfies Record<string, ErrorEntry>;

type Errors = typeof ERRORS;
export type ErrorCode = keyof Errors;
export const ERROR_CODES = Object.keys(ERRORS) as ErrorCode[];

/** Codes whose response has `Retry-After`. */
export type RetryAfterCode = {
  [Code in ErrorCode]: Errors[Code]['retryable'] extends 'after' ? Code : never;
}[ErrorCode];

/** Type of the `details` of an error with this code. */
export type ErrorDetails<Code extends ErrorCode> = Code extends ErrorCode
  ? Errors[Code]['details'] extends infer Details extends TSchema
    ? Static<Details>
    : undefined
  : never;

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
          description: 'Facts for programs; `x-errors` of this document has their schema for each code.',
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
