import { type Static, Type } from 'typebox';
import { OrgIdSchema, ProjectIdSchema, SandboxIdSchema, TemplateIdSchema, TemplateVersionIdSchema } from './ids.ts';
import { DEFAULT_TEMPLATE, LIMITS } from './limits.ts';
import { oneOf } from './list.ts';
import { NetworkPolicy } from './network-policy.ts';
import { Timestamp } from './timestamps.ts';

export const SANDBOX_STATUSES = [
  'creating',
  'starting',
  'ready',
  'running',
  'idle',
  'expiring',
  'destroyed',
  'failed',
] as const;
export type SandboxStatus = (typeof SANDBOX_STATUSES)[number];

export const DESTROYED_REASONS = ['idle_expired', 'platform_cleanup', 'ttl_expired', 'user_killed'] as const;
export type DestroyedReason = (typeof DESTROYED_REASONS)[number];

export const Metadata = Type.Record(Type.String(), Type.String({ maxLength: LIMITS.metadataValueLength }), {
  maxProperties: LIMITS.metadataKeys,
  propertyNames: { maxLength: LIMITS.metadataKeyLength },
  description: `Labels: at most ${LIMITS.metadataBytes} bytes of UTF-8, keys and values together.`,
});
export type Metadata = Static<typeof Metadata>;

/** Names of the query parameters that filter by a label, whatever its key holds. */
export const LABEL_PATTERN = '^metadata\\.';

/** Within the maximum that the operator set. */
export const Resources = Type.Object(
  {
    cpu: Type.Optional(Type.Number({ minimum: 0.1, maximum: 256, description: 'Cores.' })),
    memoryMb: Type.Optional(Type.Integer({ minimum: 128, description: 'Memory in MiB; swap is off.' })),
    diskMb: Type.Optional(Type.Integer({ minimum: 64, description: 'Disk of its own in MiB.' })),
    pids: Type.Optional(Type.Integer({ minimum: 32, description: 'Processes and threads.' })),
  },
  { $id: 'Resources', additionalProperties: false },
);
export type Resources = Static<typeof Resources>;

export const Sandbox = Type.Object(
  {
    id: SandboxIdSchema,
    orgId: OrgIdSchema,
    projectId: ProjectIdSchema,
    status: oneOf(SANDBOX_STATUSES),
    templateId: TemplateIdSchema,
    templateSlug: Type.String(),
    templateVersion: Type.String(),
    templateVersionId: TemplateVersionIdSchema,
    ttlMs: Type.Integer(),
    idleTimeoutMs: Type.Optional(Type.Integer()),
    expiresAt: Timestamp,
    metadata: Type.Record(Type.String(), Type.String()),
    networkPolicy: NetworkPolicy,
    resources: Type.Required(Resources),
    createdAt: Timestamp,
    destroyedAt: Type.Optional(Timestamp),
    destroyedReason: Type.Optional(oneOf(DESTROYED_REASONS)),
    failureReason: Type.Optional(Type.String({ description: 'Why it is `failed`, for people.' })),
  },
  { $id: 'Sandbox' },
);
export type Sandbox = Static<typeof Sandbox>;

export const CreateSandboxBody = Type.Object(
  {
    projectId: Type.Optional(Type.String({ description: 'The default project where left out.' })),
    template: Type.Optional(Type.String({ default: DEFAULT_TEMPLATE, description: 'Slug or `tpl_` id.' })),
    templateVersionId: Type.Optional(Type.String({ description: 'Pins an exact immutable environment.' })),
    ttlMs: Type.Optional(
      Type.Integer({
        minimum: 1,
        default: LIMITS.createTtlDefaultMs,
        description: `At most ${LIMITS.createTtlMaxMs}; more is \`sandbox_ttl_exceeded\`.`,
      }),
    ),
    idleTimeoutMs: Type.Optional(
      Type.Integer({ minimum: 1000, maximum: LIMITS.sessionMaxMs, description: 'Ends it after so long without use.' }),
    ),
    metadata: Type.Optional(Metadata),
    env: Type.Optional(
      Type.Record(Type.String(), Type.String(), {
        maxProperties: LIMITS.envEntries,
        propertyNames: { pattern: '^[A-Za-z_][A-Za-z0-9_]*$', maxLength: 256 },
        description: `Environment of everything that runs in it; at most ${LIMITS.envBytes} bytes.`,
      }),
    ),
    resources: Type.Optional(Resources),
    networkPolicy: Type.Optional(NetworkPolicy),
  },
  { $id: 'CreateSandbox', additionalProperties: false },
);
export type CreateSandboxBody = Static<typeof CreateSandboxBody>;

export const SetTtlBody = Type.Object(
  {
    ttlMs: Type.Integer({
      minimum: 1,
      description: `From now; at most ${LIMITS.updateTtlMaxMs}, and never past 24 hours from creation.`,
    }),
  },
  { $id: 'SetTtl', additionalProperties: false },
);
export type SetTtlBody = Static<typeof SetTtlBody>;
