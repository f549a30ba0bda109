import { type Static, Type } from 'typebox';
import { ContextIdSchema, SandboxIdSchema } from './ids.ts';
import { DEFAULT_CWD, LIMITS } from './limits.ts';
import { oneOf } from './list.ts';
import { Text } from './text.ts';
import { Timestamp, timestamp } from './timestamps.ts';

export const LANGUAGES = ['python', 'javascript', 'typescript'] as const;
export type Language = (typeof LANGUAGES)[number];

export const CodeContext = Type.Object(
  {
    id: ContextIdSchema,
    sandboxId: SandboxIdSchema,
    language: oneOf(LANGUAGES),
    cwd: Type.String({ description: 'Working directory of its runs.' }),
    isDefault: Type.Boolean({ description: 'Whether the service created it for runs without a `contextId`.' }),
    createdAt: Timestamp,
    expiresAt: Type.Optional(timestamp('Reserved: a context lives as long as its sandbox.')),
    deletedAt: Type.Optional(timestamp('When the context was deleted.')),
  },
  { $id: 'CodeContext' },
);
export type CodeContext = Static<typeof CodeContext>;

export const CwdSchema = Text({
  minLength: 1,
  maxLength: LIMITS.cwdLength,
  default: DEFAULT_CWD,
  description: 'Working directory. After symbolic links are followed it must be a directory inside `/workspace`.',
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
        description:
          'How long the creation may take, in milliseconds. If it is given, it is also the default `timeoutMs` of the runs ' +
          'that name this context.',
      }),
    ),
  },
  { $id: 'CreateCodeContext', additionalProperties: false, examples: [{ language: 'python' }] },
);
export type CreateContextBody = Static<typeof CreateContextBody>;
