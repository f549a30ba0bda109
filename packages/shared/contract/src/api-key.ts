import { type Static, Type } from 'typebox';
import { ApiKeyIdSchema, OrgIdSchema, type ProjectId, ProjectIdSchema } from './ids.ts';
import { LIMITS } from './limits.ts';
import { ALL_SCOPES, SCOPES, type Scope } from './scopes.ts';
import { NO_NUL } from './text.ts';
import { Timestamp, timestamp } from './timestamps.ts';

const GrantedScope = Type.Unsafe<Scope | typeof ALL_SCOPES>({
  type: 'string',
  enum: [ALL_SCOPES, ...SCOPES],
  description: 'A permission; `*` stands for all of them.',
});

export const ApiKey = Type.Object(
  {
    id: ApiKeyIdSchema,
    orgId: OrgIdSchema,
    name: Type.String({ description: 'Purpose of the key.' }),
    prefix: Type.Optional(
      Type.String({
        description:
          'The first 12 characters of the secret: `clk_` and 8 characters that identify the key. Missing for a key ' +
          'whose secret the operator chose.',
      }),
    ),
    scopes: Type.Array(GrantedScope, { description: 'What the key permits.' }),
    projectIds: Type.Optional(
      Type.Array(ProjectIdSchema, {
        description: 'The only projects that the key may use. Missing: every project of the organization.',
      }),
    ),
    createdAt: Timestamp,
    createdBy: Type.String({
      description: 'Id of the key that created it, or `operator` for a key that the operator created.',
    }),
    lastUsedAt: Type.Optional(timestamp('When the key was last used, up to a minute ago. Missing: not used yet.')),
    expiresAt: Type.Optional(timestamp('When the key stops working. Missing: never.')),
    revokedAt: Type.Optional(timestamp('When the key was revoked.')),
    rotatedFrom: Type.Optional(ApiKeyIdSchema),
  },
  { $id: 'ApiKey' },
);
export type ApiKey = Static<typeof ApiKey>;

export const ApiKeySecret = Type.String({
  description: 'The key itself, to be sent as `Authorization: Bearer …`. Only this response contains it.',
});

export const CreateApiKeyBody = Type.Object(
  {
    name: Type.String({
      minLength: 1,
      maxLength: LIMITS.apiKeyNameLength,
      pattern: NO_NUL,
      description: 'Purpose of the key.',
    }),
    scopes: Type.Array(GrantedScope, {
      minItems: 1,
      maxItems: SCOPES.length + 1,
      description: 'What the key permits. The calling key must have each scope itself.',
    }),
    projectIds: Type.Optional(
      Type.Array(Type.Unsafe<ProjectId>({ type: 'string', minLength: 1, pattern: NO_NUL }), {
        minItems: 1,
        maxItems: LIMITS.apiKeyProjects,
        description:
          'The only projects that the key may use. Default: every project of the organization, which a key bound to ' +
          'projects cannot grant.',
      }),
    ),
    expiresAt: Type.Optional(
      Type.String({
        format: 'date-time',
        description:
          'When the key stops working. Default: never. A key that expires can only create keys that expire no later.',
      }),
    ),
  },
  {
    $id: 'CreateApiKey',
    additionalProperties: false,
    examples: [{ name: 'ci', scopes: ['sandbox:create', 'sandbox:read', 'sandbox:kill', 'code:run'] }],
  },
);
export type CreateApiKeyBody = Static<typeof CreateApiKeyBody>;

export const RotateApiKeyBody = Type.Object(
  {
    graceMs: Type.Optional(
      Type.Integer({
        minimum: 0,
        maximum: LIMITS.apiKeyGraceMaxMs,
        description: `For how many milliseconds the old key still works. Default: ${LIMITS.apiKeyGraceDefaultMs}, a day.`,
      }),
    ),
  },
  { $id: 'RotateApiKey', additionalProperties: false, examples: [{ graceMs: 3_600_000 }] },
);
export type RotateApiKeyBody = Static<typeof RotateApiKeyBody>;

/** The organization of the calling key. */
export const Organization = Type.Object(
  { id: OrgIdSchema, name: Type.String({ description: 'Name of the organization.' }), createdAt: Timestamp },
  { $id: 'Organization' },
);
export type Organization = Static<typeof Organization>;
