import { Type } from 'typebox';
import {
  AliasCommandBody,
  COMMAND_USERS,
  Command,
  CommandEvent,
  CommandLogPage,
  CommandStdinBody,
  CreateCommandBody,
  KillCommandBody,
  ResizeCommandBody,
  terminalSize,
} from '../command.ts';
import { PAUSED_CLOSE_CODE } from '../errors.ts';
import { CommandIdSchema, SandboxIdSchema } from '../ids.ts';
import { ALIAS_DEPRECATED_SINCE, ALIAS_SUNSET, LIMITS } from '../limits.ts';
import { listOf, oneOf, PAGE } from '../list.ts';
import type { Operation } from '../operation.ts';
import { logQuery, logStream } from '../paged-log.ts';
import { Text } from '../text.ts';
import { SandboxParams } from './sandboxes.ts';

const CommandParams = Type.Object({ sandboxId: SandboxIdSchema, commandId: CommandIdSchema });
const CommandResponse = Type.Object({ command: Command });
const collection = '/v1/sandboxes/{sandboxId}/commands';
const item = `${collection}/{commandId}`;
const common = { tag: 'Commands' } as const;
const deprecation = { since: ALIAS_DEPRECATED_SINCE, sunset: ALIAS_SUNSET, successorId: 'createCommand' } as const;
const ended = ['sandbox_destroyed', 'sandbox_failed', 'sandbox_incompatible'] as const;

export const createCommand = {
  ...common,
  id: 'createCommand',
  method: 'POST',
  path: collection,
  summary: 'Run a command',
  description:
    'The response is sent when the command has ended or, with `background`, when it has started. The command does not end ' +
    'if the client disconnects: repeat the request with the same `Idempotency-Key` to get the response. Processes that the ' +
    'command leaves in the background keep running when it ends.',
  scope: 'command:run',
  idempotency: 'required',
  params: SandboxParams,
  body: CreateCommandBody,
  bodyValues: LIMITS.bodyValues + LIMITS.commandArguments,
  response: {
    status: 201,
    schema: CommandResponse,
    description: 'The command: it has ended or, with `background`, started.',
  },
  errors: ['conflict', ...ended],
} as const satisfies Operation;

export const runCommand = {
  ...createCommand,
  id: 'runCommand',
  path: `${collection}/run`,
  summary: 'Run a command and wait for it (deprecated alias)',
  description: 'Runs a command as `createCommand` does without `background`.',
  body: AliasCommandBody,
  deprecation,
} as const satisfies Operation;

export const startCommand = {
  ...createCommand,
  id: 'startCommand',
  path: `${collection}/start`,
  summary: 'Start a command (deprecated alias)',
  description: 'Runs a command as `createCommand` does with `background`.',
  body: AliasCommandBody,
  deprecation,
} as const satisfies Operation;

export const listCommands = {
  ...common,
  id: 'listCommands',
  method: 'GET',
  path: collection,
  summary: 'List the commands of a sandbox',
  description: 'Oldest first, also for a destroyed sandbox. Code runs are not commands.',
  scope: 'command:read',
  idempotency: 'none',
  params: SandboxParams,
  query: Type.Object(PAGE, { additionalProperties: false }),
  response: { status: 200, schema: listOf(Command), description: 'All commands of the sandbox.' },
  errors: [],
} as const satisfies Operation;

export const getCommand = {
  ...common,
  id: 'getCommand',
  method: 'GET',
  path: item,
  summary: 'Get a command',
  description: 'With `waitMs`, the response is sent when the command has ended or that time has passed.',
  scope: 'command:read',
  idempotency: 'none',
  params: CommandParams,
  query: Type.Object(
    {
      waitMs: Type.Optional(
        Type.Integer({
          minimum: 0,
          maximum: LIMITS.waitMaxMs,
          default: 0,
          description: 'How long to wait for the end of the command, in milliseconds.',
        }),
      ),
    },
    { additionalProperties: false },
  ),
  response: { status: 200, schema: CommandResponse, description: 'The command.' },
  errors: [],
} as const satisfies Operation;

export const listCommandLogs = {
  ...common,
  id: 'listCommandLogs',
  method: 'GET',
  path: `${item}/logs`,
  summary: 'Read the log of a command',
  description:
    'Pages are addressed by sequence number: no entry is lost or repeated while the command keeps writing. The log keeps ' +
    `the last ${LIMITS.commandLogBytes} bytes; an entry of the stream \`system\` states how much was dropped before it.`,
  scope: 'command:read',
  idempotency: 'none',
  params: CommandParams,
  query: logQuery('entries', LIMITS.commandLogEntries),
  response: { status: 200, schema: CommandLogPage, description: 'A page of entries.' },
  errors: ended,
} as const satisfies Operation;

export const streamCommand = {
  ...common,
  id: 'streamCommand',
  method: 'GET',
  path: `${item}/stream`,
  summary: 'Follow the log of a command',
  description:
    'Server-sent events: `log` for each entry, then `exit` with the command, or `error` if the service failed or the ' +
    'sandbox was paused (`sandbox_paused`: another request would wake it). The id of ' +
    'an event is the sequence number of its entry; `Last-Event-ID` or `afterSeq` resumes the stream. The command keeps ' +
    'running if the client disconnects.',
  scope: 'command:read',
  idempotency: 'none',
  params: CommandParams,
  ...logStream('entries', 'exit'),
  events: CommandEvent,
  errors: ended,
} as const satisfies Operation;

export const writeCommandStdin = {
  ...common,
  id: 'writeCommandStdin',
  method: 'POST',
  path: `${item}/stdin`,
  summary: 'Write to the standard input of a command',
  description:
    'Requires a command that was created with `stdinOpen`. The response is sent when the data was written. The error is ' +
    '`unavailable` if the command does not read the data in time, and `conflict` if its standard input is closed or the ' +
    'command has ended.',
  scope: 'command:run',
  idempotency: 'optional',
  params: CommandParams,
  body: CommandStdinBody,
  response: { status: 200, schema: CommandResponse, description: 'The command.' },
  errors: [...ended, 'conflict'],
} as const satisfies Operation;

export const killCommand = {
  ...common,
  id: 'killCommand',
  method: 'POST',
  path: `${item}/kill`,
  summary: 'Send a signal to a command',
  description:
    'The signal goes to the command and to all processes that it started. A command that has ended is returned unchanged.',
  scope: 'command:run',
  idempotency: 'optional',
  params: CommandParams,
  body: KillCommandBody,
  bodyOptional: true,
  response: { status: 200, schema: CommandResponse, description: 'The command. After `SIGKILL` it has ended.' },
  errors: ended,
} as const satisfies Operation;

export const resizeCommand = {
  ...common,
  id: 'resizeCommand',
  method: 'POST',
  path: `${item}/resize`,
  summary: 'Resize the terminal of a command',
  description:
    'Requires a command that was created with `terminal`. The error is `conflict` if the command has ended or has no ' +
    'terminal.',
  scope: 'command:run',
  idempotency: 'optional',
  params: CommandParams,
  body: ResizeCommandBody,
  response: { status: 200, schema: CommandResponse, description: 'The command.' },
  errors: [...ended, 'conflict'],
} as const satisfies Operation;

export const openPty = {
  ...common,
  id: 'openPty',
  method: 'GET',
  path: '/v1/sandboxes/{sandboxId}/pty',
  summary: 'Open or join a terminal',
  description:
    'Opens a WebSocket to a login shell. Without `ptyId` a new terminal is opened. With `ptyId` the client joins that ' +
    'terminal and first gets the last part of its output. A terminal without clients is closed after some minutes.',
  scope: 'command:run',
  idempotency: 'none',
  params: SandboxParams,
  query: Type.Object(
    {
      ptyId: Type.Optional(
        Text({ minLength: 1, maxLength: 64, description: 'Id of a terminal, from its `ready` message.' }),
      ),
      cols: Type.Optional(terminalSize.cols),
      rows: Type.Optional(terminalSize.rows),
      user: Type.Optional(oneOf(COMMAND_USERS, 'User of a new terminal. Default: `user`.')),
    },
    { additionalProperties: false },
  ),
  webSocket:
    'Binary messages carry input to the shell and output from it. Text messages are JSON: the client sends ' +
    '`{ "type": "resize", "cols", "rows" }`; the service sends `{ "type": "ready", "ptyId" }` first and ' +
    '`{ "type": "exit", "exitCode" }` last. If the sandbox is paused, the WebSocket is closed with ' +
    `${PAUSED_CLOSE_CODE} and the reason \`sandbox_paused\`; the terminal can be joined again after the wake.`,
  response: { status: 101, schema: Type.Null(), description: 'The connection becomes a WebSocket.' },
  errors: ended,
} as const satisfies Operation;
