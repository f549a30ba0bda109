import { type Static, Type } from 'typebox';
import { ContextIdSchema, SandboxIdSchema } from './ids.ts';
import { DEFAULT_CWD, LIMITS } from './limits.ts';
import { oneOf } from './list.ts';
import { Timestamp } from './timestamps.ts';

export const LANGUAGES = ['python', 'javascript', 'typescript'] as const;
export type Language = (typeof LANGUAGES)[number];

export const CodeContext = Type.Object(
  {
    id: ContextIdSchema,
    sandboxId: SandboxIdSchema,
    language: oneOf(LANGUAGES),
    cwd: Type.String(),
    isDefault: Type.Boolean({ description: 'Made by the service for runs that name no context.' }),
    createdAt: Timestamp,
    expiresAt: Type.Optional(Timestamp),
    deletedAt: Type.Optional(Timestamp),
  },
  { $id: 'CodeContext' },
);
export type CodeContext = Static<typeof CodeContext>;

export const CwdSchema = Type.String({
  minLength: 1,
  maxLength: LIMITS.cwdLength,
  pattern: '^[^\\u0000]*$',
  default: DEFAULT_CWD,
  description: 'Must resolve inside `/workspace`, links included.',
});

export const CreateContextBody = Type.Object(
  {
    language: oneOf(LANGUAGES),
    cwd: Type.Optional(CwdSchema),
    timeoutMs: Type.Optional(
      Type.Integer({
        minimum: 1,
        maximum: LIMITS.contextTimeoutMaxMs,
        default: LIMITS.contextTimeoutDefaultMs,
        description: "Bounds the creation; also the default `timeoutMs` of this context's runs.",
      }),
    ),
  },
  { $id: 'CreateCodeContext', additionalProperties: false },
);
export type CreateContextBody = Static<typeof CreateContextBody>;
