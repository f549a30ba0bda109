import { type Static, Type } from 'typebox';
import { CommandIdSchema, SandboxIdSchema } from './ids.ts';
import { DEFAULT_CWD, LIMITS } from './limits.ts';
import { oneOf } from './list.ts';
import { Timestamp } from './timestamps.ts';

export const COMMAND_STATUSES = ['running', 'exited', 'killed', 'timed_out', 'failed'] as const;
export type CommandStatus = (typeof COMMAND_STATUSES)[number];

export const COMMAND_USERS = ['user', 'root'] as const;
export type CommandUser = (typeof COMMAND_USERS)[number];

/** What a command can be sent. */
export const SIGNALS = [
  'SIGHUP',
  'SIGINT',
  'SIGQUIT',
  'SIGKILL',
  'SIGUSR1',
  'SIGUSR2',
  'SIGTERM',
  'SIGCONT',
  'SIGSTOP',
  'SIGTSTP',
  'SIGWINCH',
] as const;
export type Signal = (typeof SIGNALS)[number];

const CommandLine = Type.Union(
  [
    Type.String({ minLength: 1, description: 'A line for the shell: it runs under `bash -lc`.' }),
    Type.Array(Type.String(), {
      minItems: 1,
      maxItems: LIMITS.commandArguments,
      description: 'A program and its arguments, taken as they are.',
    }),
  ],
  {
    description:
      `At most ${LIMITS.commandBytes} bytes of UTF-8 in all, and ${LIMITS.commandArgumentBytes} in one argument ` +
      'or shell line.',
  },
);

export const Command = Type.Object(
  {
    id: CommandIdSchema,
    sandboxId: SandboxIdSchema,
    command: Type.Union([Type.String(), Type.Array(Type.String())]),
    cwd: Type.String(),
    user: oneOf(COMMAND_USERS),
    background: Type.Boolean(),
    status: oneOf(
      COMMAND_STATUSES,
      '`killed`: by the API or with its sandbox; `timed_out`: by its `timeoutMs`; `failed`: it could not be started, ' +
        'or what watched over it was lost.',
    ),
    exitCode: Type.Optional(Type.Integer({ description: 'As shells count: 128 and the number of a signal.' })),
    signal: Type.Optional(Type.String({ description: 'The signal that ended it.' })),
    failureReason: Type.Optional(Type.String({ description: 'Why it is `failed`, for people.' })),
    stdout: Type.Optional(Type.String({ description: 'In the answer of a command that was waited for.' })),
    stderr: Type.Optional(Type.String({ description: 'In the answer of a command that was waited for.' })),
    truncated: Type.Optional(
      Type.Object(
        { stdout: Type.Optional(Type.Integer()), stderr: Type.Optional(Type.Integer()) },
        { description: 'Bytes that were cut from each.' },
      ),
    ),
    startedAt: Timestamp,
    finishedAt: Type.Optional(Timestamp),
    durationMs: Type.Optional(Type.Integer({ minimum: 0 })),
  },
  { $id: 'Command' },
);
export type Command = Static<typeof Command>;

const commandFields = {
  command: CommandLine,
  cwd: Type.Optional(
    Type.String({
      minLength: 1,
      maxLength: LIMITS.cwdLength,
      pattern: '^[^\\u0000]*$',
      default: DEFAULT_CWD,
      description: 'A folder anywhere in the sandbox; relative to `/workspace`.',
    }),
  ),
  env: Type.Optional(
    Type.Record(Type.String(), Type.String(), {
      maxProperties: LIMITS.envEntries,
      propertyNames: { pattern: '^[A-Za-z_][A-Za-z0-9_]*$', maxLength: 256 },
      description: `Over the sandbox's; at most ${LIMITS.envBytes} bytes.`,
    }),
  ),
  stdin: Type.Optional(
    Type.String({ description: `Its standard input, at most ${LIMITS.commandStdinBytes} bytes; then it ends.` }),
  ),
  stdinOpen: Type.Optional(
    Type.Boolean({ default: false, description: 'Keeps standard input open for `POST …/stdin`.' }),
  ),
  timeoutMs: Type.Optional(
    Type.Integer({
      minimum: 1,
      maximum: LIMITS.commandTimeoutMaxMs,
      description:
        `All of its processes end then. Default ${LIMITS.commandTimeoutDefaultMs}; a command in the background ` +
        'has none unless it is given.',
    }),
  ),
  user: Type.Optional(oneOf(COMMAND_USERS, '`root` is the root of the sandbox alone. Default `user`.')),
};

export const CreateCommandBody = Type.Object(
  {
    ...commandFields,
    background: Type.Optional(Type.Boolean({ default: false, description: 'Answers when it has started.' })),
  },
  { $id: 'CreateCommand', additionalProperties: false },
);
export type CreateCommandBody = Static<typeof CreateCommandBody>;

/** Of the aliases, whose path says whether they wait. */
export const AliasCommandBody = Type.Object(commandFields, {
  $id: 'CreateCommandByAlias',
  additionalProperties: false,
});
export type AliasCommandBody = Static<typeof AliasCommandBody>;

export const CommandLogEntry = Type.Object(
  {
    seq: Type.Integer({ minimum: 1 }),
    stream: oneOf(['stdout', 'stderr', 'system'], '`system`: the service itself, where it had to drop entries.'),
    data: Type.String({ description: 'What is no UTF-8 is replaced; entries do not divide characters.' }),
    at: Timestamp,
  },
  { $id: 'CommandLogEntry' },
);
export type CommandLogEntry = Static<typeof CommandLogEntry>;

export const CommandLogPage = Type.Object(
  {
    data: Type.Array(CommandLogEntry),
    nextSeq: Type.Integer({ minimum: 0, description: 'The `afterSeq` of the next page.' }),
    hasMore: Type.Boolean({ description: 'More is there already.' }),
  },
  { $id: 'CommandLogPage' },
);
export type CommandLogPage = Static<typeof CommandLogPage>;

/** The frames of a command's stream; `exit` is last unless the stream ends in a platform `error`. */
export const CommandEvent = Type.Union(
  [
    Type.Object({ type: Type.Literal('log'), data: CommandLogEntry }),
    Type.Object({ type: Type.Literal('exit'), data: Command }),
  ],
  { $id: 'CommandEvent' },
);
export type CommandEvent = Static<typeof CommandEvent>;

export const CommandStdinBody = Type.Object(
  {
    data: Type.Optional(Type.String({ description: `At most ${LIMITS.commandStdinBytes} bytes.` })),
    encoding: Type.Optional(oneOf(['utf8', 'base64'], 'How `data` spells bytes. Default `utf8`.')),
    close: Type.Optional(Type.Boolean({ default: false, description: 'Ends standard input after `data`.' })),
  },
  { $id: 'CommandStdin', additionalProperties: false },
);
export type CommandStdinBody = Static<typeof CommandStdinBody>;

export const KillCommandBody = Type.Object(
  { signal: Type.Optional(oneOf(SIGNALS, 'Default `SIGKILL`.')) },
  { $id: 'KillCommand', additionalProperties: false },
);
export type KillCommandBody = Static<typeof KillCommandBody>;
