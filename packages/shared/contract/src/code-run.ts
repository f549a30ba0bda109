import { type Static, Type } from 'typebox';
import { CwdSchema, LANGUAGES } from './code-context.ts';
import { ContextIdSchema, SandboxIdSchema } from './ids.ts';
import { LIMITS } from './limits.ts';
import { oneOf } from './list.ts';
import { documented } from './text.ts';

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
    kind: oneOf(
      ['inline', 'artifact'],
      '`inline`: `value` has the content. `artifact`: `artifactId` names the artifact.',
    ),
    format: oneOf(
      OUTPUT_FORMATS,
      '`chart`: the type, axes and series of a figure, as JSON. `data`: rows and columns of a table, as JSON.',
    ),
    value: Type.Optional(
      Type.String({ description: 'The content: text formats as they are, JSON as text, binary formats as base64.' }),
    ),
    mimeType: Type.String({ description: 'Media type of the content.' }),
    role: oneOf(
      ['result', 'display'],
      '`result`: the value of the last expression. `display`: what the code displayed while it ran.',
    ),
    bundle: Type.Integer({
      minimum: 0,
      description: 'Outputs with the same number represent one value, such as the text and the HTML of a table.',
    }),
    artifactId: Type.Optional(Type.String({ description: 'Id of the artifact that has the content.' })),
    sizeBytes: Type.Optional(Type.Integer({ description: 'Size of the artifact.' })),
    sha256: Type.Optional(Type.String({ description: 'SHA-256 of the artifact, in hexadecimal.' })),
  },
  {
    $id: 'CodeOutput',
    examples: [{ kind: 'inline', format: 'text', value: '42', mimeType: 'text/plain', role: 'result', bundle: 0 }],
  },
);
export type CodeOutput = Static<typeof CodeOutput>;

/** Error names that the service sets. Every other name is the class of an exception. */
export const SERVICE_ERROR_NAMES = [
  'TimeoutError',
  'OutOfMemoryError',
  'ProcessLimitError',
  'KernelDiedError',
  'CanceledError',
] as const;

export const CodeExecutionError = Type.Object(
  {
    name: Type.String({
      description: `Class of the exception, or a name of the service: ${SERVICE_ERROR_NAMES.map((name) => `\`${name}\``).join(', ')}.`,
    }),
    message: Type.String({ description: 'Message of the exception.' }),
    traceback: Type.Optional(
      Type.Array(Type.String(), { description: 'Lines of the traceback, without colour codes.' }),
    ),
  },
  {
    $id: 'CodeExecutionError',
    examples: [
      { name: 'ZeroDivisionError', message: 'division by zero', traceback: ['ZeroDivisionError: division by zero'] },
    ],
  },
);
export type CodeExecutionError = Static<typeof CodeExecutionError>;

export const CodeRun = Type.Object(
  {
    sandboxId: SandboxIdSchema,
    contextId: ContextIdSchema,
    language: oneOf(LANGUAGES),
    executionCount: Type.Integer({
      minimum: 0,
      description: 'How many runs the context has executed, this one included.',
    }),
    stdout: Type.String({ description: `Standard output, at most ${LIMITS.outputStreamBytes} bytes.` }),
    stderr: Type.String({ description: `Standard error, at most ${LIMITS.outputStreamBytes} bytes.` }),
    outputs: Type.Array(CodeOutput, { description: 'Rich outputs, in the order in which the code made them.' }),
    durationMs: Type.Optional(
      Type.Integer({ minimum: 0, description: 'Duration in milliseconds. Absent if `error` is present.' }),
    ),
    error: Type.Optional(CodeExecutionError),
    truncated: Type.Optional(
      Type.Object(
        { stdout: Type.Optional(Type.Integer()), stderr: Type.Optional(Type.Integer()) },
        { description: 'How many bytes were cut from each stream, if any.' },
      ),
    ),
    stateLost: Type.Optional(
      Type.Boolean({
        description: 'The kernel of the context was replaced before this run: earlier variables are gone.',
      }),
    ),
  },
  { $id: 'CodeRun' },
);
export type CodeRun = Static<typeof CodeRun>;

export const RunCodeBody = Type.Object(
  {
    code: Type.String({
      minLength: 1,
      ...documented({ maxLength: LIMITS.codeBytes }),
      description: `The code, at most ${LIMITS.codeBytes} bytes of UTF-8. It may contain NUL.`,
    }),
    language: oneOf(LANGUAGES),
    contextId: Type.Optional(
      Type.String({
        pattern: '^cctx_',
        description:
          'Id of a context of the same language. Default: the default context of the language, which is created on first use.',
      }),
    ),
    cwd: Type.Optional({ ...CwdSchema, description: 'Working directory. It must equal the `cwd` of the context.' }),
    timeoutMs: Type.Optional(
      Type.Integer({
        minimum: 1,
        maximum: LIMITS.runTimeoutMaxMs,
        default: LIMITS.runTimeoutDefaultMs,
        description:
          'How long the response may take, in milliseconds. The execution is then interrupted, and the response has a ' +
          '`TimeoutError`.',
      }),
    ),
    artifactPolicy: Type.Optional(
      oneOf(
        ['inline_only', 'promote'],
        '`inline_only`: outputs are in the response, and those that are too large are left out. `promote`: binary and large ' +
          'outputs become artifacts; this needs the scope `artifact:create`. Default: `inline_only`.',
      ),
    ),
  },
  {
    $id: 'RunCode',
    additionalProperties: false,
    examples: [{ code: 'print(6 * 7)', language: 'python' }],
  },
);
export type RunCodeBody = Static<typeof RunCodeBody>;

/** Events of a run's stream. `complete` is the last, unless the service fails and the stream ends with `error`. */
export const CodeRunEvent = Type.Union(
  [
    Type.Object({ type: Type.Literal('stdout'), data: Type.String() }, { description: 'A chunk of standard output.' }),
    Type.Object({ type: Type.Literal('stderr'), data: Type.String() }, { description: 'A chunk of standard error.' }),
    Type.Object({ type: Type.Literal('output'), data: CodeOutput }, { description: 'A rich output.' }),
    Type.Object(
      { type: Type.Literal('error'), data: CodeExecutionError },
      { description: 'The code failed or timed out, and `complete` follows; or the service failed, see `ErrorEvent`.' },
    ),
    Type.Object(
      { type: Type.Literal('complete'), data: CodeRun },
      { description: 'The whole result. This is the last event.' },
    ),
  ],
  { $id: 'CodeRunEvent' },
);
export type CodeRunEvent = Static<typeof CodeRunEvent>;
