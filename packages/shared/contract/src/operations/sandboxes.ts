import { Type } from 'typebox';
import { SandboxIdSchema } from '../ids.ts';
import { ALIAS_DEPRECATED_SINCE, ALIAS_SUNSET, LIMITS } from '../limits.ts';
import { createdBetween, idPrefix, listOf, oneOf, PAGE } from '../list.ts';
import type { Operation } from '../operation.ts';
import { PauseSandboxBody, ResumeSandboxBody } from '../pause-requests.ts';
import { CreateSandboxBody, LABEL_PATTERN, SANDBOX_STATUSES, Sandbox, SetTtlBody } from '../sandbox.ts';
import { SandboxName } from '../sandbox-name.ts';
import { GetOrCreateSandboxBody, UpdateSandboxBody } from '../sandbox-requests.ts';
import { Text } from '../text.ts';

const NameParams = Type.Object({ name: SandboxName });
export const SandboxParams = Type.Object({ sandboxId: SandboxIdSchema });
const SandboxResponse = Type.Object({ sandbox: Sandbox });

/** A start command is a command of the key. */
const STARTS = { scope: 'command:run', when: '`startCommand` is given' } as const;

export const createSandbox = {
  id: 'createSandbox',
  method: 'POST',
  path: '/v1/sandboxes',
  tag: 'Sandboxes',
  summary: 'Create a sandbox',
  description:
    'Responds immediately with `status: creating`. Further requests to the sandbox may be sent immediately: they wait until ' +
    'it is ready. A `name` that another sandbox of the project has is a `conflict` (`details.sandboxId`), as is a `pause` ' +
    'that asks for pauses by themselves where the memory of a sandbox cannot be kept (`details.reason` is ' +
    '`memory_unsupported`).',
  scope: 'sandbox:create',
  extraScope: STARTS,
  idempotency: 'optional',
  body: CreateSandboxBody,
  bodyOptional: true,
  response: { status: 201, schema: SandboxResponse, description: 'The new sandbox.' },
  errors: ['conflict', 'quota_exceeded', 'sandbox_ttl_exceeded'],
} as const satisfies Operation;

export const getOrCreateSandbox = {
  id: 'getOrCreateSandbox',
  method: 'PUT',
  path: '/v1/sandboxes/by-name/{name}',
  tag: 'Sandboxes',
  summary: 'Get a sandbox by its name, or create it',
  description:
    'Returns the sandbox of the project that has the name, as it is: a paused one is not woken. If there is none that has ' +
    'not ended, creates it with the body, as `POST /v1/sandboxes` does. Of requests at the same time, exactly one creates ' +
    'it. If the body gives a `template`, `templateVersionId`, `resources`, `networkPolicy`, `secrets` or `pause` that the sandbox ' +
    'does not have, the error is `conflict`; `details.differs` has these fields and `details.sandboxId` the sandbox. ' +
    'Other fields count for a creation alone. `pause.onExpiry` is true unless the body says otherwise, or memory cannot be ' +
    'kept here.',
  scope: 'sandbox:create',
  extraScope: STARTS,
  idempotency: 'optional',
  params: NameParams,
  body: GetOrCreateSandboxBody,
  bodyOptional: true,
  response: {
    status: 200,
    schema: Type.Object({
      sandbox: Sandbox,
      created: Type.Boolean({ description: 'Whether this request created the sandbox.' }),
    }),
    description: 'The sandbox.',
  },
  errors: ['conflict', 'quota_exceeded', 'sandbox_ttl_exceeded'],
} as const satisfies Operation;

export const getSandboxByName = {
  id: 'getSandboxByName',
  method: 'GET',
  path: '/v1/sandboxes/by-name/{name}',
  tag: 'Sandboxes',
  summary: 'Get a sandbox by its name',
  description: 'A destroyed or failed sandbox is not found by its name.',
  scope: 'sandbox:read',
  idempotency: 'none',
  params: NameParams,
  query: Type.Object(
    {
      projectId: Type.Optional(
        Text({ description: 'Id of the project. Default: the default project of the organization.' }),
      ),
    },
    { additionalProperties: false },
  ),
  response: { status: 200, schema: SandboxResponse, description: 'The sandbox.' },
  errors: [],
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
      name: Type.Optional({ ...SandboxName, description: 'Only sandboxes with this name.' }),
      status: Type.Optional(oneOf(SANDBOX_STATUSES, 'Only sandboxes with this status.')),
      paused: Type.Optional(Type.Boolean({ description: 'Only sandboxes that are paused, or that are not.' })),
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

export const updateSandbox = {
  id: 'updateSandbox',
  method: 'PATCH',
  path: '/v1/sandboxes/{sandboxId}',
  tag: 'Sandboxes',
  summary: 'Change a sandbox',
  description:
    'Changes only the given fields. `metadata` is replaced as a whole, and `pause` field by field. A name that another ' +
    'sandbox of the project has is a `conflict` (`details.sandboxId`), and so is a `pause` by itself of a sandbox whose ' +
    'memory cannot be kept (`details.reason` is `memory_unsupported`). Does not wake a paused sandbox.',
  scope: 'sandbox:create',
  idempotency: 'none',
  params: SandboxParams,
  body: UpdateSandboxBody,
  response: { status: 200, schema: SandboxResponse, description: 'The changed sandbox.' },
  errors: ['conflict', 'quota_exceeded', 'sandbox_destroyed', 'sandbox_failed'],
} as const satisfies Operation;

export const setSandboxTtl = {
  id: 'setSandboxTtl',
  method: 'POST',
  path: '/v1/sandboxes/{sandboxId}/ttl',
  tag: 'Sandboxes',
  summary: 'Set the lifetime of a sandbox',
  description:
    'The sandbox expires `ttlMs` after this request. The new expiry must be later than the current one and at most ' +
    '24 hours after `sessionStartedAt`.',
  scope: 'sandbox:extend',
  idempotency: 'required',
  params: SandboxParams,
  body: SetTtlBody,
  response: { status: 200, schema: SandboxResponse, description: 'The sandbox with its new `expiresAt`.' },
  errors: ['sandbox_destroyed', 'sandbox_failed', 'sandbox_paused', 'sandbox_ttl_exceeded'],
} as const satisfies Operation;

export const extendSandbox = {
  ...setSandboxTtl,
  id: 'extendSandbox',
  path: '/v1/sandboxes/{sandboxId}/extend',
  summary: 'Set the lifetime of a sandbox (deprecated alias)',
  deprecation: { since: ALIAS_DEPRECATED_SINCE, sunset: ALIAS_SUNSET, successorId: 'setSandboxTtl' },
} as const satisfies Operation;

export const pauseSandbox = {
  id: 'pauseSandbox',
  method: 'POST',
  path: '/v1/sandboxes/{sandboxId}/pause',
  tag: 'Sandboxes',
  summary: 'Pause a sandbox',
  description:
    'When it answers, nothing in the sandbox executes, and its lifetime has stopped. Files are kept, and by ' +
    '`memory` also processes and variables. A request that needs its processes or files ' +
    'wakes it, unless its policy says otherwise (`pause.wake`). Pausing a paused sandbox returns it as it is; a `retainMs` then counts from this request, and `drop` drops ' +
    'its memory. Background commands then end (`killed`), and the next result of each context has `stateLost`. A sandbox that is ' +
    'being created is paused when it is ready. `conflict`: code runs or waited commands are in progress ' +
    '(`details.running`), it belongs to a workspace run or a build, or what `memory` asks for cannot be kept (`details.reason` is ' +
    '`memory_unsupported`).',
  scope: 'sandbox:pause',
  idempotency: 'optional',
  params: SandboxParams,
  body: PauseSandboxBody,
  bodyOptional: true,
  response: { status: 200, schema: SandboxResponse, description: 'The paused sandbox.' },
  errors: ['conflict', 'quota_exceeded', 'sandbox_destroyed', 'sandbox_failed', 'sandbox_incompatible'],
} as const satisfies Operation;

export const resumeSandbox = {
  id: 'resumeSandbox',
  method: 'POST',
  path: '/v1/sandboxes/{sandboxId}/resume',
  tag: 'Sandboxes',
  summary: 'Resume a paused sandbox',
  description:
    'Answers when the sandbox accepts work again. Its lifetime and the 24 hours of its session count from then. A failure ' +
    'leaves it paused, with everything that it had. Resuming a sandbox that is not paused returns it.',
  scope: 'sandbox:pause',
  idempotency: 'optional',
  params: SandboxParams,
  body: ResumeSandboxBody,
  bodyOptional: true,
  response: { status: 200, schema: SandboxResponse, description: 'The sandbox, which is not paused.' },
  errors: ['quota_exceeded', 'sandbox_destroyed', 'sandbox_failed', 'sandbox_incompatible', 'sandbox_ttl_exceeded'],
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
