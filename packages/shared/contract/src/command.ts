import { type Static, Type } from 'typebox';
import { environment } from './environment.ts';
import { CommandIdSchema, SandboxIdSchema } from './ids.ts';
import { DEFAULT_CWD, LIMITS } from './limits.ts';
import { oneOf } from './list.ts';
import { logPage } from './paged-log.ts';
import { documented, NO_NUL, Text } from './text.ts';
import { timestamp } from './timestamps.ts';

export const COMMAND_STATUSES = ['running', 'exited', 'killed', 'timed_out', 'failed'] as const;
export type CommandStatus = (typeof COMMAND_STATUSES)[number];

export const COMMAND_USERS = ['user', 'root'] as const;
export type CommandUser = (typeof COMMAND_USERS)[number];

/** Signals that a command can be sent. */
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

/** Base64 in the standard alphabet, with or without padding; its unused bits must be zero. */
export const BASE64_PATTERN =
  '^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/][AQgw](?:==)?|[A-Za-z0-9+/]{2}[AEIMQUYcgkosw048]=?)?$';

export const CommandLine = Type.Union(
  [
    Text({
      minLength: 1,
      ...documented({ maxLength: LIMITS.commandArgumentBytes }),
      description: 'A shell line: it runs as `/bin/bash -lc -- LINE`.',
    }),
    Type.Array(Text({ ...documented({ maxLength: LIMITS.commandArgumentBytes }) }), {
      minItems: 1,
      maxItems: LIMITS.commandArguments,
      ...documented({ prefixItems: [{ type: 'string', minLength: 1, pattern: NO_NUL }] }),
      description: 'A program and its arguments, started without a shell. The name of the program must not be empty.',
    }),
  ],
  {
    description:
      `At most ${LIMITS.commandBytes} bytes of UTF-8 in total, and ${LIMITS.commandArgumentBytes} in one argument ` +
      'or shell line. The kernel counts the environment too: a command that exceeds its limit is `failed` with exit code 126.',
  },
);

export const Command = Type.Object(
  {
    id: CommandIdSchema,
    sandboxId: SandboxIdSchema,
    command: Type.Union([Type.String(), Type.Array(Type.String())], {
      description: 'The command as it was requested.',
    }),
    cwd: Type.String({ description: 'Working directory.' }),
    user: oneOf(COMMAND_USERS),
    background: Type.Boolean({
      description: 'Whether the command was started in the background: the response did not wait for its end.',
    }),
    status: oneOf(
      COMMAND_STATUSES,
      '`exited`: the command ended on its own. `killed`: the API or the end of the sandbox ended it. `timed_out`: its `timeoutMs` ' +
        'passed. `failed`: it could not be started, or the service lost track of it.',
    ),
    exitCode: Type.Optional(
      Type.Integer({
        description:
          'Exit code, as in a shell: 128 plus the number of the signal that ended it, 127 if the program does not exist, ' +
          '126 if it cannot be executed; `stderr` says why.',
      }),
    ),
    signal: Type.Optional(Type.String({ description: 'Signal that ended it, such as `SIGKILL`.' })),
    failureReason: Type.Optional(Type.String({ description: 'Explains for people why the command is `failed`.' })),
    stdout: Type.Optional(
      Type.String({ description: 'Standard output. Present only in the response to a command without `background`.' }),
    ),
    stderr: Type.Optional(
      Type.String({ description: 'Standard error. Present only in the response to a command without `background`.' }),
    ),
    truncated: Type.Optional(
      Type.Object(
        { stdout: Type.Optional(Type.Integer()), stderr: Type.Optional(Type.Integer()) },
        { description: 'How many bytes were cut from each stream, if any.' },
      ),
    ),
    startedAt: timestamp('When the command started.'),
    finishedAt: Type.Optional(timestamp('When the command ended.')),
    durationMs: Type.Optional(Type.Integer({ minimum: 0 })),
  },
  { $id: 'Command' },
);
export type Command = Static<typeof Command>;

const commandFields = {
  command: CommandLine,
  cwd: Type.Optional(
    Text({
      minLength: 1,
      maxLength: LIMITS.cwdLength,
      default: DEFAULT_CWD,
      description:
        'Working directory: any directory that the user may enter. Relative paths are resolved against `/workspace`.',
    }),
  ),
  env: Type.Optional(
    environment('Environment variables of the command. They replace those of the sandbox with the same name.'),
  ),
  stdin: Type.Optional(
    Type.String({
      ...documented({ maxLength: LIMITS.commandStdinBytes }),
      description:
        `Standard input, at most ${LIMITS.commandStdinBytes} bytes of UTF-8. It may contain NUL. Standard input is closed ` +
        'after it, unless `stdinOpen` is set.',
    }),
  ),
  stdinOpen: Type.Optional(
    Type.Boolean({ default: false, description: 'Keeps standard input open, for `POST …/stdin`.' }),
  ),
  timeoutMs: Type.Optional(
    Type.Integer({
      minimum: 1,
      maximum: LIMITS.commandTimeoutMaxMs,
      description:
        'Ends all processes of the command after this many milliseconds. ' +
        `Default: ${LIMITS.commandTimeoutDefaultMs}; no limit for a command with \`background\`.`,
    }),
  ),
  user: Type.Optional(
    oneOf(COMMAND_USERS, 'User that runs the command. `root` is root only inside the sandbox. Default: `user`.'),
  ),
};

function terminalSide(name: string, otherwise: number) {
  return Type.Integer({
    minimum: 0,
    maximum: LIMITS.terminalNamedSide,
    description: `${name}. 0 is the default, ${otherwise}; more than ${LIMITS.terminalMaxSide} are cut.`,
  });
}

/** Columns and rows of a terminal, as clients name them. */
export const terminalSize = {
  cols: terminalSide('Columns', LIMITS.terminalDefaultCols),
  rows: terminalSide('Rows', LIMITS.terminalDefaultRows),
};

export const CreateCommandBody = Type.Object(
  {
    ...commandFields,
    background: Type.Optional(
      Type.Boolean({ default: false, description: 'Respond when the command has started, not when it has ended.' }),
    ),
    terminal: Type.Optional(
      Type.Object(terminalSize, {
        additionalProperties: false,
        description:
          'Runs the command in a terminal of this size. All its output is `stdout` then. With `stdinOpen`, what is written ' +
          'to its standard input is typed.',
      }),
    ),
  },
  {
    $id: 'CreateCommand',
    additionalProperties: false,
    examples: [{ command: 'ls -l | wc -l' }, { command: ['python3', '-m', 'http.server'], background: true }],
  },
);
export type CreateCommandBody = Static<typeof CreateCommandBody>;

/** Body of the aliases. Their path decides whether they wait for the command's end. */
export const AliasCommandBody = Type.Object(commandFields, {
  $id: 'CreateCommandByAlias',
  additionalProperties: false,
  examples: [{ command: 'ls -l | wc -l' }],
});
export type AliasCommandBody = Static<typeof AliasCommandBody>;

export const CommandLogEntry = Type.Object(
  {
    seq: Type.Integer({ minimum: 1, description: 'Sequence number of the entry.' }),
    stream: oneOf(['stdout', 'stderr', 'system'], '`system`: a note of the service that it dropped entries.'),
    data: Type.String({ description: 'The text. Bytes that are not UTF-8 are replaced; no character is split.' }),
    at: timestamp('When the command wrote it.'),
  },
  {
    $id: 'CommandLogEntry',
    examples: [{ seq: 1, stream: 'stdout', data: 'hello\n', at: '2026-01-01T00:00:00.000Z' }],
  },
);
export type CommandLogEntry = Static<typeof CommandLogEntry>;

export const CommandLogPage = logPage('CommandLogPage', CommandLogEntry, 'entries');
export type CommandLogPage = Static<typeof CommandLogPage>;

/** Events of a command's stream. `exit` is the last, unless the service fails and the stream ends with `error`. */
export const CommandEvent = Type.Union(
  [
    Type.Object(
      { type: Type.Literal('log'), data: CommandLogEntry },
      { description: 'An entry of the log. The id of the event is its `seq`.' },
    ),
    Type.Object(
      { type: Type.Literal('exit'), data: Command },
      { description: 'The command has ended. This is the last event.' },
    ),
  ],
  { $id: 'CommandEvent' },
);
export type CommandEvent = Static<typeof CommandEvent>;

export const CommandStdinBody = Type.Object(
  {
    data: Type.Optional(
      Type.String({
        ...documented({ maxLength: Math.ceil(LIMITS.commandStdinBytes / 3) * 4 }),
        description: `Data to write: at most ${LIMITS.commandStdinBytes} bytes. It may contain NUL.`,
      }),
    ),
    encoding: Type.Optional(
      oneOf(
        ['utf8', 'base64'],
        'Encoding of `data`. With `base64`, `data` must be base64 of the standard alphabet. Default: `utf8`.',
      ),
    ),
    close: Type.Optional(Type.Boolean({ default: false, description: 'Close standard input after `data`.' })),
  },
  {
    $id: 'CommandStdin',
    additionalProperties: false,
    ...documented({
      if: { properties: { encoding: { const: 'base64' } }, required: ['encoding'] },
      // biome-ignore lint/suspicious/noThenProperty: a keyword of JSON Schema
      then: { properties: { data: { pattern: BASE64_PATTERN } } },
    }),
    examples: [{ data: 'yes\n', close: true }],
  },
);
export type CommandStdinBody = Static<typeof CommandStdinBody>;

export const ResizeCommandBody = Type.Object(terminalSize, {
  $id: 'ResizeCommand',
  additionalProperties: false,
  examples: [{ cols: 120, rows: 40 }],
});
export type ResizeCommandBody = Static<typeof ResizeCommandBody>;

export const KillCommandBody = Type.Object(
  { signal: Type.Optional(oneOf(SIGNALS, 'Default: `SIGKILL`.')) },
  { $id: 'KillCommand', additionalProperties: false, examples: [{ signal: 'SIGTERM' }] },
);
export type KillCommandBody = Static<typeof KillCommandBody>;
