/**
 * Server ↔ agent: commands. Uses the connection that `agent-protocol.ts` describes.
 *
 * | method and path | body → answer |
 * |---|---|
 * | `PUT /commands/:id` | `StartCommand` → `AgentCommand` once the command has started; idempotent by id |
 * | `POST /commands/:id/result` | `{}` → a stream of `CommandResultEvent`, one JSON text per line, once the command has ended |
 * | `GET /commands/:id` | → `AgentCommand` |
 * | `GET /commands/:id/end` | → `AgentCommand` once the command has ended |
 * | `POST /commands/:id/logs` | `ReadCommandLog` → `AgentLogPage`, without waiting |
 * | `POST /commands/:id/follow` | `FollowCommandLog` → a stream of `AgentCommandEvent`, one JSON text per line |
 * | `POST /commands/:id/stdin` | `WriteStdin` → 204 once the command can receive more |
 * | `POST /commands/:id/resize` | `TerminalSize` → 204; for a command with a terminal |
 * | `POST /commands/:id/prevent` | `{}` → `AgentCommand`; otherwise `not_found`, and a later `PUT` of the id too |
 * | `POST /commands/:id/kill` | `SignalCommand` → `AgentCommand`; after SIGKILL the command has ended |
 *
 * Closing a connection does not affect the command.
 */
import { type Static, Type } from 'typebox';
import { Count, Environment, Ordinal, Path, Word } from '../bounded.ts';
import { MAX_LOG_ENTRY_BYTES } from './bounds.ts';

/** Limit of a page of logs and of one line of a stream; far more than an honest agent sends. */
export const MAX_COMMAND_MESSAGE_BYTES = 4 * 1024 * 1024;

export const TerminalSize = Type.Object({
  columns: Ordinal,
  rows: Ordinal,
});
export type TerminalSize = Static<typeof TerminalSize>;

export const StartCommand = Type.Object({
  argv: Type.Array(Type.String({ maxLength: 131_072 }), { minItems: 1, maxItems: 100_000 }),
  /**
   * Whether `argv` begins with `bash` and means the shell of the sandbox's image, by its own path, whatever a `PATH` says.
   */
  ownShell: Type.Optional(Type.Boolean()),
  /** Absolute path, anywhere in the sandbox. */
  cwd: Path,
  /** Variables that override those of the sandbox. */
  env: Environment,
  user: Type.Union([Type.Literal('user'), Type.Literal('root')]),
  stdin: Type.Optional(Type.String({ maxLength: MAX_COMMAND_MESSAGE_BYTES })),
  /** Whether standard input stays open after `stdin`. */
  stdinOpen: Type.Boolean(),
  /** Runs the command in a terminal; in pipes when left out. */
  terminal: Type.Optional(TerminalSize),
  /** Time limit; none when left out. */
  timeoutMs: Type.Optional(Ordinal),
  /** JSON-encoded bytes of the start of each stream to keep for `result`. Nothing is kept when left out. */
  capture: Type.Optional(Type.Object({ stdoutBytes: Count, stderrBytes: Count })),
  /** Limit of the command's log. */
  logBytes: Count,
});
export type StartCommand = Static<typeof StartCommand>;

export const AgentCommandStatus = Type.Union([
  Type.Literal('running'),
  Type.Literal('exited'),
  Type.Literal('killed'),
  Type.Literal('timed_out'),
  Type.Literal('failed'),
]);

/** State of a command. */
export const AgentCommand = Type.Object({
  id: Word,
  status: AgentCommandStatus,
  exitCode: Type.Optional(Type.Integer({ minimum: 0, maximum: 255 })),
  signal: Type.Optional(Type.String({ maxLength: 16 })),
  failureReason: Type.Optional(Type.String({ maxLength: 1024 })),
  durationMs: Type.Optional(Count),
});
export type AgentCommand = Static<typeof AgentCommand>;

/** Bytes cut from each stream; a stream is absent when nothing was cut. */
const CutBytes = Type.Object({
  stdout: Type.Optional(Ordinal),
  stderr: Type.Optional(Ordinal),
});

/** An event of a command's result. `done` is the last one. */
export const CommandResultEvent = Type.Union([
  Type.Object({
    type: Type.Union([Type.Literal('stdout'), Type.Literal('stderr')]),
    data: Type.String({ maxLength: MAX_COMMAND_MESSAGE_BYTES }),
  }),
  Type.Object({ type: Type.Literal('done'), command: AgentCommand, truncated: Type.Optional(CutBytes) }),
]);
export type CommandResultEvent = Static<typeof CommandResultEvent>;

export const AgentLogEntry = Type.Object({
  seq: Ordinal,
  stream: Type.Union([Type.Literal('stdout'), Type.Literal('stderr'), Type.Literal('system')]),
  data: Type.String({ minLength: 1, maxLength: MAX_LOG_ENTRY_BYTES }),
  at: Count,
});
export type AgentLogEntry = Static<typeof AgentLogEntry>;

export const ReadCommandLog = Type.Object({
  afterSeq: Count,
  limit: Ordinal,
});
export type ReadCommandLog = Static<typeof ReadCommandLog>;

export const AgentLogPage = Type.Object({
  entries: Type.Array(AgentLogEntry, { maxItems: 10_000 }),
  hasMore: Type.Boolean(),
});
export type AgentLogPage = Static<typeof AgentLogPage>;

export const FollowCommandLog = Type.Object({ afterSeq: Count });

/** An event of a command's log. `exit` is the last one and is always sent, unless the connection breaks. */
export const AgentCommandEvent = Type.Union([
  Type.Object({ type: Type.Literal('log'), entry: AgentLogEntry }),
  Type.Object({ type: Type.Literal('exit'), command: AgentCommand }),
]);
export type AgentCommandEvent = Static<typeof AgentCommandEvent>;

export const WriteStdin = Type.Object({
  dataBase64: Type.String({ maxLength: 2 * MAX_COMMAND_MESSAGE_BYTES }),
  close: Type.Boolean(),
});
export type WriteStdin = Static<typeof WriteStdin>;

export const SignalCommand = Type.Object({ signal: Word });
