import { type Static, Type } from 'typebox';
import { CwdSchema, LANGUAGES } from './code-context.ts';
import { ContextIdSchema, SandboxIdSchema } from './ids.ts';
import { LIMITS } from './limits.ts';
import { oneOf } from './list.ts';

export const OUTPUT_FORMATS = [
  'text',
  'html',
  'markdown',
  'latex',
  'svg',
  'png',
  'jpeg',
  'gif',
  'pdf',
  'json',
  'javascript',
  'chart',
  'data',
] as const;
export type OutputFormat = (typeof OUTPUT_FORMATS)[number];

export const CodeOutput = Type.Object(
  {
    kind: oneOf(['inline', 'artifact'], '`inline` carries `value`; `artifact` names where the content is kept.'),
    format: oneOf(OUTPUT_FORMATS),
    value: Type.Optional(Type.String({ description: 'Text as it is, JSON as text, binary formats as base64.' })),
    mimeType: Type.String(),
    role: oneOf(['result', 'display'], '`result`: the value of the last expression.'),
    bundle: Type.Integer({ minimum: 0, description: 'Outputs of one bundle are forms of one thing.' }),
    artifactId: Type.Optional(Type.String()),
    sizeBytes: Type.Optional(Type.Integer()),
    sha256: Type.Optional(Type.String()),
  },
  { $id: 'CodeOutput' },
);
export type CodeOutput = Static<typeof CodeOutput>;

/** The service's own names; every other is the exception's class. */
export const SERVICE_ERROR_NAMES = ['TimeoutError', 'OutOfMemoryError', 'KernelDiedError', 'CanceledError'] as const;

export const CodeExecutionError = Type.Object(
  {
    name: Type.String({ description: `The exception's class, or one of ${SERVICE_ERROR_NAMES.join(', ')}.` }),
    message: Type.String(),
    traceback: Type.Optional(Type.Array(Type.String())),
  },
  { $id: 'CodeExecutionError' },
);
export type CodeExecutionError = Static<typeof CodeExecutionError>;

export const CodeRun = Type.Object(
  {
    sandboxId: SandboxIdSchema,
    contextId: ContextIdSchema,
    language: oneOf(LANGUAGES),
    executionCount: Type.Integer({ minimum: 0 }),
    stdout: Type.String(),
    stderr: Type.String(),
    outputs: Type.Array(CodeOutput),
    durationMs: Type.Optional(Type.Integer({ minimum: 0, description: 'Absent where `error` is present.' })),
    error: Type.Optional(CodeExecutionError),
    truncated: Type.Optional(
      Type.Object(
        { stdout: Type.Optional(Type.Integer()), stderr: Type.Optional(Type.Integer()) },
        { description: 'Bytes that were cut from each.' },
      ),
    ),
    stateLost: Type.Optional(Type.Boolean({ description: "The context's kernel had to be replaced before this run." })),
  },
  { $id: 'CodeRun' },
);
export type CodeRun = Static<typeof CodeRun>;

export const RunCodeBody = Type.Object(
  {
    code: Type.String({ minLength: 1, description: `At most ${LIMITS.codeBytes} bytes of UTF-8.` }),
    language: oneOf(LANGUAGES),
    contextId: Type.Optional(
      Type.String({ pattern: '^cctx_', description: 'One default context for each language where left out.' }),
    ),
    cwd: Type.Optional(CwdSchema),
    timeoutMs: Type.Optional(
      Type.Integer({
        minimum: 1,
        maximum: LIMITS.runTimeoutMaxMs,
        default: LIMITS.runTimeoutDefaultMs,
        description: 'Bounds the answer; the execution is then interrupted.',
      }),
    ),
    artifactPolicy: Type.Optional(
      oneOf(
        ['inline_only', 'promote'],
        '`promote` keeps binary and large outputs as artifacts; needs `artifact:create`.',
      ),
    ),
  },
  { $id: 'RunCode', additionalProperties: false },
);
export type RunCodeBody = Static<typeof RunCodeBody>;

/** The frames of a run's stream; `complete` is last unless the stream ends in a platform `error`. */
export const CodeRunEvent = Type.Union(
  [
    Type.Object({ type: Type.Literal('stdout'), data: Type.String() }),
    Type.Object({ type: Type.Literal('stderr'), data: Type.String() }),
    Type.Object({ type: Type.Literal('output'), data: CodeOutput }),
    Type.Object({ type: Type.Literal('error'), data: CodeExecutionError }),
    Type.Object({ type: Type.Literal('complete'), data: CodeRun }),
  ],
  { $id: 'CodeRunEvent' },
);
export type CodeRunEvent = Static<typeof CodeRunEvent>;
