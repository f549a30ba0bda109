import { Type } from 'typebox';
import { SandboxIdSchema } from '../ids.ts';
import { ALIAS_DEPRECATED_SINCE, ALIAS_SUNSET, LIMITS } from '../limits.ts';
import { createdBetween, idPrefix, listOf, oneOf, PAGE } from '../list.ts';
import type { Operation } from '../operation.ts';
import { CreateSandboxBody, LABEL_PATTERN, SANDBOX_STATUSES, Sandbox, SetTtlBody } from '../sandbox.ts';
import { Text } from '../text.ts';

export const SandboxParams = Type.Object({ sandboxId: SandboxIdSchema });
const SandboxResponse = Type.Object({ sandbox: Sandbox });

export const createSandbox = {
  id: 'createSandbox',
  method: 'POST',
  path: '/v1/sandboxes',
  tag: 'Sandboxes',
  summary: 'Create a sandbox',
  description:
    'Responds immediately with `status: creating`. Further requests to the sandbox may be sent immediately: they wait until ' +
    'it is ready.',
  scope: 'sandbox:create',
  idempotency: 'optional',
  body: CreateSandboxBody,
  bodyOptional: true,
  response: { status: 201, schema: SandboxResponse, description: 'The new sandbox.' },
  errors: ['quota_exceeded', 'sandbox_ttl_exceeded'],
} as const satisfies Operation;

export const listSandboxes = {
  id: 'listSandboxes',
  method: 'GET',
  path: '/v1/sandboxes',
  tag: 'Sandboxes',
  summary: 'List sandboxes',
  description:
    'Newest first. Destroyed and failed sandboxes are listed only with `include=historical`, or if `status` names that ' +
    'status; by default their records are kept for 30 days. `metadata.<key>=<value>` lists only sandboxes with that label.',
  scope: 'sandbox:read',
  idempotency: 'none',
  query: Type.Object(
    {
      projectId: Type.Optional(Text({ description: 'Only sandboxes of this project.' })),
      status: Type.Optional(oneOf(SANDBOX_STATUSES, 'Only sandboxes with this status.')),
      include: Type.Optional(oneOf(['historical'], '`historical`: also list destroyed and failed sandboxes.')),
      idPrefix: idPrefix('sbx_', 'sandboxes'),
      ...createdBetween('sandboxes'),
      ...PAGE,
    },
    { patternProperties: { [LABEL_PATTERN]: Text() }, additionalProperties: false },
  ),
  response: { status: 200, schema: listOf(Sandbox), description: 'All sandboxes that the key can see.' },
  errors: [],
} as const satisfies Operation;

export const getSandbox = {
  id: 'getSandbox',
  method: 'GET',
  path: '/v1/sandboxes/{sandboxId}',
  tag: 'Sandboxes',
  summary: 'Get a sandbox',
  description:
    'With `waitFor`, the response is sent when the sandbox has that status, when it can no longer reach it, or after ' +
    '`waitMs`.',
  scope: 'sandbox:read',
  idempotency: 'none',
  params: SandboxParams,
  query: Type.Object(
    {
      waitFor: Type.Optional(oneOf(SANDBOX_STATUSES, 'Status to wait for. `running` and `idle` count as `ready`.')),
      waitMs: Type.Optional(
        Type.Integer({
          minimum: 0,
          maximum: LIMITS.waitMaxMs,
          default: LIMITS.waitDefaultMs,
          description: 'How long to wait at most, in milliseconds.',
        }),
      ),
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
  summary: 'Set the lifetime of a sandbox',
  description:
    'The sandbox expires `ttlMs` after this request. The new expiry must be later than the current one and at most ' +
    '24 hours after creation.',
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
  summary: 'Set the lifetime of a sandbox (deprecated alias)',
  deprecation: { since: ALIAS_DEPRECATED_SINCE, sunset: ALIAS_SUNSET, successorId: 'setSandboxTtl' },
} as const satisfies Operation;

export const killSandbox = {
  id: 'killSandbox',
  method: 'DELETE',
  path: '/v1/sandboxes/{sandboxId}',
  tag: 'Sandboxes',
  summary: 'Destroy a sandbox',
  description:
    'The files of the sandbox are lost; its artifacts are kept. Destroying a destroyed sandbox returns its record.',
  scope: 'sandbox:kill',
  idempotency: 'none',
  params: SandboxParams,
  response: { status: 200, schema: SandboxResponse, description: 'The destroyed sandbox.' },
  errors: [],
} as const satisfies Operation;
