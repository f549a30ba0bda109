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
} from '../command.ts';
import { CommandIdSchema, SandboxIdSchema } from '../ids.ts';
import { ALIAS_DEPRECATED_SINCE, ALIAS_SUNSET, LIMITS } from '../limits.ts';
import { listOf, oneOf } from '../list.ts';
import type { Operation } from '../operation.ts';
import { SandboxParams } from './sandboxes.ts';

const CommandParams = Type.Object({ sandboxId: SandboxIdSchema, commandId: CommandIdSchema });
const CommandResponse = Type.Object({ command: Command });
const collection = '/v1/sandboxes/{sandboxId}/commands';
const item = `${collection}/{commandId}`;
const common = { tag: 'Commands' } as const;
const deprecation = { since: ALIAS_DEPRECATED_SINCE, sunset: ALIAS_SUNSET, successorId: 'createCommand' } as const;
const ended = ['sandbox_destroyed', 'sandbox_failed'] as const;

const AfterSeq = Type.Integer({
  minimum: 0,
  maximum: Number.MAX_SAFE_INTEGER,
  default: 0,
  description: 'Entries after this one.',
});

export const createCommand = {
  ...common,
  id: 'createCommand',
  method: 'POST',
  path: collection,
  summary: 'Run a command',
  description:
    'Answers when it has ended, or with `background` when it has started. A command that is waited for ends by its ' +
    '`timeoutMs`, not when its client leaves: the same Idempotency-Key asks for the answer again. What it leaves ' +
    'running when it ends by itself goes on.',
  scope: 'command:run',
  idempotency: 'required',
  params: SandboxParams,
  body: CreateCommandBody,
  response: { status: 201, schema: CommandResponse, description: 'The command, ended or started.' },
  errors: ended,
} as const satisfies Operation;

export const runCommand = {
  ...createCommand,
  id: 'runCommand',
  path: `${collection}/run`,
  summary: 'Run a command and wait for it (deprecated alias)',
  description: 'Of `createCommand` without `background`.',
  body: AliasCommandBody,
  deprecation,
} as const satisfies Operation;

export const startCommand = {
  ...createCommand,
  id: 'startCommand',
  path: `${collection}/start`,
  summary: 'Start a command (deprecated alias)',
  description: 'Of `createCommand` with `background`.',
  body: AliasCommandBody,
  deprecation,
} as const satisfies Operation;

export const listCommands = {
  ...common,
  id: 'listCommands',
  method: 'GET',
  path: collection,
  summary: 'List the commands of a sandbox',
  description: 'Those of a destroyed one too. Code runs are no commands.',
  scope: 'command:read',
  idempotency: 'none',
  params: SandboxParams,
  response: { status: 200, schema: listOf(Command), description: 'The whole collection, oldest first.' },
  errors: [],
} as const satisfies Operation;

export const getCommand = {
  ...common,
  id: 'getCommand',
  method: 'GET',
  path: item,
  summary: 'Get a command',
  description: 'With `waitMs` the answer comes when it has ended, or after so long.',
  scope: 'command:read',
  idempotency: 'none',
  params: CommandParams,
  query: Type.Object(
    { waitMs: Type.Optional(Type.Integer({ minimum: 0, maximum: LIMITS.waitMaxMs, default: 0 })) },
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
  summary: 'Read what a command printed',
  description:
    'By sequence numbers, without loss or repetition while it is written. The oldest entries are dropped beyond ' +
    `${LIMITS.commandLogBytes} bytes; an entry of the stream \`system\` then says so.`,
  scope: 'command:read',
  idempotency: 'none',
  params: CommandParams,
  query: Type.Object(
    {
      afterSeq: Type.Optional(AfterSeq),
      limit: Type.Optional(Type.Integer({ minimum: 1, maximum: LIMITS.commandLogEntries, default: 100 })),
    },
    { additionalProperties: false },
  ),
  response: { status: 200, schema: CommandLogPage, description: 'A page, of a few megabytes at most.' },
  errors: ended,
} as const satisfies Operation;

export const streamCommand = {
  ...common,
  id: 'streamCommand',
  method: 'GET',
  path: `${item}/stream`,
  summary: 'Follow a command',
  description:
    'Server-sent events: `log` for each entry, whose sequence number is the id of the event, and last `exit` with the ' +
    'command, or `error` whose `data.name` is an error code. `Last-Event-ID`, or `afterSeq`, resumes. Leaving the ' +
    'stream leaves the command alone.',
  scope: 'command:read',
  idempotency: 'none',
  params: CommandParams,
  query: Type.Object({ afterSeq: Type.Optional(AfterSeq) }, { additionalProperties: false }),
  response: { status: 200, schema: Type.String(), description: 'The event stream.' },
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
    'For a command that was started with `stdinOpen`. Answers when the command has room for more; `unavailable` when it ' +
    'takes nothing for long. `conflict` when its input is closed or it has ended.',
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
  summary: 'Send a signal to a command and all that it started',
  description: 'Idempotent: one that has ended is returned as it is.',
  scope: 'command:run',
  idempotency: 'optional',
  params: CommandParams,
  body: KillCommandBody,
  bodyOptional: true,
  response: { status: 200, schema: CommandResponse, description: 'The command; after `SIGKILL` it has ended.' },
  errors: ended,
} as const satisfies Operation;

export const openPty = {
  ...common,
  id: 'openPty',
  method: 'GET',
  path: '/v1/sandboxes/{sandboxId}/pty',
  summary: 'Open a terminal, or join one',
  description:
    'A WebSocket to a login shell in a terminal. Without `ptyId` a new one is opened; with it one that is there is ' +
    'joined, and what its screen showed last is sent first. A shell outlives its connections for a while.',
  scope: 'command:run',
  idempotency: 'none',
  params: SandboxParams,
  query: Type.Object(
    {
      ptyId: Type.Optional(Type.String({ minLength: 1, maxLength: 64, description: 'As `ready` named it.' })),
      cols: Type.Optional(Type.Integer({ minimum: 1, maximum: 1000, default: 80 })),
      rows: Type.Optional(Type.Integer({ minimum: 1, maximum: 1000, default: 24 })),
      user: Type.Optional(oneOf(COMMAND_USERS, 'Of a new one. Default `user`.')),
    },
    { additionalProperties: false },
  ),
  webSocket:
    'Binary frames are what is typed and shown. Text frames are JSON: `{ "type": "resize", "cols", "rows" }` to the ' +
    'service; from it first `{ "type": "ready", "ptyId" }`, and last `{ "type": "exit", "exitCode" }`.',
  response: { status: 101, schema: Type.Null(), description: 'The connection is a WebSocket.' },
  errors: ended,
} as const satisfies Operation;
