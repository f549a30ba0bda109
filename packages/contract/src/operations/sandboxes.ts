import { Type } from 'typebox';
import { SandboxIdSchema } from '../ids.ts';
import { ALIAS_DEPRECATED_SINCE, ALIAS_SUNSET, LIMITS } from '../limits.ts';
import { listOf, oneOf } from '../list.ts';
import type { Operation } from '../operation.ts';
import { CreateSandboxBody, LABEL_PATTERN, SANDBOX_STATUSES, Sandbox, SetTtlBody } from '../sandbox.ts';

export const SandboxParams = Type.Object({ sandboxId: SandboxIdSchema });
const SandboxResponse = Type.Object({ sandbox: Sandbox });

export const createSandbox = {
  id: 'createSandbox',
  method: 'POST',
  path: '/v1/sandboxes',
  tag: 'Sandboxes',
  summary: 'Create a sandbox',
  description: 'Answers at once with `status: creating`. Runs sent meanwhile wait for it.',
  scope: 'sandbox:create',
  idempotency: 'optional',
  body: CreateSandboxBody,
  bodyOptional: true,
  response: { status: 201, schema: SandboxResponse, description: 'The accepted sandbox.' },
  errors: ['quota_exceeded', 'sandbox_ttl_exceeded'],
} as const satisfies Operation;

export const listSandboxes = {
  id: 'listSandboxes',
  method: 'GET',
  path: '/v1/sandboxes',
  tag: 'Sandboxes',
  summary: 'List sandboxes',
  description:
    'Newest first. Destroyed and failed ones only with `include=historical` or when `status` asks for them, for 30 days ' +
    'unless the operator decides otherwise. ' +
    '`metadata.<key>=value` filters by an exact label.',
  scope: 'sandbox:read',
  idempotency: 'none',
  query: Type.Object(
    {
      projectId: Type.Optional(Type.String()),
      status: Type.Optional(oneOf(SANDBOX_STATUSES)),
      include: Type.Optional(oneOf(['historical'])),
    },
    { patternProperties: { [LABEL_PATTERN]: Type.String() }, additionalProperties: false },
  ),
  response: { status: 200, schema: listOf(Sandbox), description: 'The whole visible collection.' },
  errors: [],
} as const satisfies Operation;

export const getSandbox = {
  id: 'getSandbox',
  method: 'GET',
  path: '/v1/sandboxes/{sandboxId}',
  tag: 'Sandboxes',
  summary: 'Get a sandbox',
  description: 'With `waitFor=ready` the answer comes when it is ready, cannot become so, or `waitMs` has passed.',
  scope: 'sandbox:read',
  idempotency: 'none',
  params: SandboxParams,
  query: Type.Object(
    {
      waitFor: Type.Optional(oneOf(SANDBOX_STATUSES)),
      waitMs: Type.Optional(Type.Integer({ minimum: 0, maximum: LIMITS.waitMaxMs, default: LIMITS.waitDefaultMs })),
    },
    { additionalProperties: false },
  ),
  response: { status: 200, schema: SandboxResponse, description: 'The sandbox.' },
  errors: [],
} as const satisfies Operation;

export const setSandboxTtl = {
  id: 'setSandboxTtl',
  method: 'POST',
  path: '/v1/sandboxes/{sandboxId}/ttl',
  tag: 'Sandboxes',
  summary: 'Restart the TTL countdown',
  description: 'The new expiry, now + `ttlMs`, must be later than the current one and within 24 hours of creation.',
  scope: 'sandbox:extend',
  idempotency: 'required',
  params: SandboxParams,
  body: SetTtlBody,
  response: { status: 200, schema: SandboxResponse, description: 'The sandbox with its new `expiresAt`.' },
  errors: ['sandbox_destroyed', 'sandbox_failed', 'sandbox_ttl_exceeded'],
} as const satisfies Operation;

export const extendSandbox = {
  ...setSandboxTtl,
  id: 'extendSandbox',
  path: '/v1/sandboxes/{sandboxId}/extend',
  summary: 'Restart the TTL countdown (deprecated alias)',
  deprecation: { since: ALIAS_DEPRECATED_SINCE, sunset: ALIAS_SUNSET, successorId: 'setSandboxTtl' },
} as const satisfies Operation;

export const killSandbox = {
  id: 'killSandbox',
  method: 'DELETE',
  path: '/v1/sandboxes/{sandboxId}',
  tag: 'Sandboxes',
  summary: 'Destroy a sandbox at once',
  description: 'Idempotent: a destroyed one is returned as it is. Its workspace is lost.',
  scope: 'sandbox:kill',
  idempotency: 'none',
  params: SandboxParams,
  response: { status: 200, schema: SandboxResponse, description: 'The destroyed sandbox.' },
  errors: [],
} as const satisfies Operation;
