import { create } from '@bufbuild/protobuf';
import { type Command as CommandInfo, type CommandLogEntry, LIMITS } from '@cloche/contract';
import { basicCredentials } from '@cloche/kit';
import type { Command } from '@cloche/sdk';
import { Code, ConnectError, type HandlerContext, type ServiceImpl } from '@connectrpc/connect';
import type { E2bDeps } from '../e2b-deps.ts';
import {
  type Process,
  type ProcessEvent,
  ProcessEventSchema,
  type ProcessInput,
  type PTY,
  Signal,
  type StartRequest,
} from '../generated/process/process_pb.js';
import { type BoxSession, openSession, pathOf, userOf } from './box-session.ts';
import { answering, streaming } from './connect-error.ts';
import { UNTIL_PAUSE } from './paused-box.ts';
import { findProcess, processIdOf, runningOf } from './process-ids.ts';

/** Request header in which a client names the seconds of silence after which it expects a `keepalive` event. */
const KEEP_ALIVE_FIELD = 'keepalive-ping-interval';
const SECOND_MS = 1000;
const SHORTEST_KEEP_ALIVE_S = 1;
const DEFAULT_KEEP_ALIVE_S = 90;
/** A timer of more than 2^31 milliseconds would fire at once. */
const LONGEST_KEEP_ALIVE_S = 3600;
/**
 * Prefix of the command of a terminal. It marks the command, because `/v1` does not return later whether a command has
 * a terminal.
 */
const TERMINAL_COMMAND = ['/usr/bin/env', 'CLOCHE_TERMINAL=e2b'];
const ENCODER = new TextEncoder();

type Implementation = ServiceImpl<typeof Process>;

/** Answers the calls about processes, each of which is a command of `/v1`. */
export function processService(deps: E2bDeps): Implementation {
  const open = ({ requestHeader }: HandlerContext) => openSession(Object.fromEntries(requestHeader), deps);
  return {
    start: streaming(async function* (request, context) {
      const command = await startCommand(open(context), request, context);
      yield* eventsOf(command, context);
    }),
    connect: streaming(async function* ({ process }, context) {
      yield* eventsOf(await findProcess(open(context), process), context);
    }),
    list: answering(async (_request, context) => {
      const running = await Array.fromAsync(runningOf(open(context).commands));
      return { processes: running.map(({ info }) => ({ pid: processIdOf(info.id), config: configOf(info) })) };
    }),
    update: answering(async ({ process, pty }, context) => {
      const { cols, rows } = sizeOf(pty);
      const command = await findProcess(open(context), process);
      await command.resize(cols, rows, { signal: context.signal });
      return {};
    }),
    sendInput: answering(async ({ process, input }, context) => {
      const command = await findProcess(open(context), process);
      await command.sendStdin(inputOf(input), { signal: context.signal });
      return {};
    }),
    streamInput: answering(async (requests, context) => {
      let command: Command | undefined;
      for await (const { event } of requests) {
        if (event.case === 'start') command = await findProcess(open(context), event.value.process);
        if (event.case !== 'data') continue;
        if (!command) throw new ConnectError('The first message must be start.', Code.InvalidArgument);
        await command.sendStdin(inputOf(event.value.input), { signal: context.signal });
      }
      return {};
    }),
    sendSignal: answering(async ({ process, signal }, context) => {
      const command = await findProcess(open(context), process);
      await command.kill(signal === Signal.SIGTERM ? 'SIGTERM' : 'SIGKILL');
      return {};
    }),
    closeStdin: answering(async ({ process }, context) => {
      await (await findProcess(open(context), process)).closeStdin();
      return {};
    }),
  };
}

async function startCommand(session: BoxSession, request: StartRequest, context: HandlerContext): Promise<Command> {
  const { process, pty, tag, stdin } = request;
  if (tag) throw new ConnectError('Cloche has no tags of processes; use the pid.', Code.Unimplemented);
  if (!process) throw new ConnectError('process is missing.', Code.InvalidArgument);
  const user = userOf(basicCredentials(context.requestHeader.get('authorization') ?? undefined)?.name);
  const timeoutMs = context.timeoutMs();
  const command = [process.cmd, ...process.args];
  return session.commands.start(pty ? [...TERMINAL_COMMAND, ...command] : command, {
    ...(pty && { terminal: sizeOf(pty) }),
    user,
    cwd: pathOf(process.cwd ?? '', user),
    env: { ...process.envs },
    stdinOpen: stdin ?? pty !== undefined,
    ...limited(timeoutMs),
    signal: context.signal,
  });
}

/** A time limit beyond that of `/v1` is none: the sandbox ends the command, or the client does at its own limit. */
function limited(timeoutMs: number | undefined): { timeoutMs?: number } {
  if (timeoutMs === undefined || timeoutMs > LIMITS.commandTimeoutMaxMs) return {};
  return { timeoutMs: Math.max(1, Math.round(timeoutMs)) };
}

function configOf(info: CommandInfo) {
  const { command, cwd } = info;
  const words = typeof command === 'string' ? ['/bin/bash', '-l', '-c', command] : command;
  const [cmd = '', ...args] = hasTerminal(info) ? words.slice(TERMINAL_COMMAND.length) : words;
  return { cmd, args, envs: {}, cwd };
}

function hasTerminal({ command }: CommandInfo): boolean {
  return TERMINAL_COMMAND.every((word, index) => command[index] === word);
}

/** @throws ConnectError `invalid_argument` */
function sizeOf(pty: PTY | undefined): { cols: number; rows: number } {
  if (pty?.size) return { cols: pty.size.cols, rows: pty.size.rows };
  throw new ConnectError('The size of the terminal is missing: give cols and rows.', Code.InvalidArgument);
}

/** Returns the bytes of an input, which is typed or written. Both go to the standard input of the command. */
function inputOf(input: ProcessInput | undefined): Uint8Array {
  if (input?.input.value) return input.input.value;
  throw new ConnectError('The input is missing: give stdin or pty.', Code.InvalidArgument);
}

/**
 * Yields `start`, the output so far and from now on, and `end`. Yields `keepalive` whenever there was no other event
 * for a while.
 */
async function* eventsOf(command: Command, context: HandlerContext): AsyncGenerator<{ event: ProcessEvent }> {
  yield { event: eventOf({ case: 'start', value: { pid: processIdOf(command.id) } }) };
  const events = command.events({ signal: context.signal, ...UNTIL_PAUSE })[Symbol.asyncIterator]();
  const silenceMs = keepAliveMs(context);
  const isTerminal = hasTerminal(command.info);
  try {
    for (let next = events.next(); ; ) {
      const silence = Promise.withResolvers<'silence'>();
      const timer = setTimeout(() => silence.resolve('silence'), silenceMs);
      const result = await Promise.race([next, silence.promise]).finally(() => clearTimeout(timer));
      if (result === 'silence') {
        yield { event: eventOf({ case: 'keepalive', value: {} }) };
        continue;
      }
      if (result.done) return;
      const { value } = result;
      if (value.type === 'exit') yield { event: endOf(value.data) };
      if (value.type === 'log') yield { event: outputOf(value.data, isTerminal) };
      next = events.next();
    }
  } finally {
    await events.return?.(undefined);
  }
}

function keepAliveMs({ requestHeader }: HandlerContext): number {
  const asked = Number(requestHeader.get(KEEP_ALIVE_FIELD) || DEFAULT_KEEP_ALIVE_S);
  const seconds = Number.isFinite(asked) ? asked : DEFAULT_KEEP_ALIVE_S;
  return Math.min(LONGEST_KEEP_ALIVE_S, Math.max(SHORTEST_KEEP_ALIVE_S, seconds)) * SECOND_MS;
}

type EventInit = NonNullable<Parameters<typeof create<typeof ProcessEventSchema>>[1]>['event'];

function eventOf(event: EventInit & object): ProcessEvent {
  return create(ProcessEventSchema, { event });
}

/** Converts an entry of the log. Notes of the service, for example about dropped output, become standard error. */
function outputOf({ stream, data }: CommandLogEntry, isTerminal: boolean): ProcessEvent {
  const where = isTerminal ? 'pty' : stream === 'stdout' ? 'stdout' : 'stderr';
  const output = { case: where, value: ENCODER.encode(data) } as const;
  return eventOf({ case: 'data', value: { output } });
}

function endOf({ exitCode, signal, status, failureReason }: CommandInfo): ProcessEvent {
  const exited = status === 'exited' || status === 'failed';
  const text = exited ? `exit status ${exitCode ?? 0}` : `signal: ${signal ?? status}`;
  const error = failureReason ?? (exitCode === 0 ? undefined : text);
  const value = { exitCode: exitCode ?? -1, exited, status: text, ...(error === undefined ? {} : { error }) };
  return eventOf({ case: 'end', value });
}
