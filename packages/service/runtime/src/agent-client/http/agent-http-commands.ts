import type { Duplex } from 'node:stream';
import { LIMITS } from '@cloche/contract';
import { jsonBytes, parsePlainJson, pause } from '@cloche/node-support';
import {
  AgentCommand,
  AgentCommandEvent,
  type AgentLogEntry,
  AgentLogPage,
  CommandResultEvent,
  MAX_COMMAND_MESSAGE_BYTES,
  type StartCommand,
  TERMINAL_PROTOCOL,
  type TerminalSize,
} from '@cloche/protocol';
import { Compile } from 'typebox/compile';
import type { AgentCommandResult, AgentCommands, NewTerminal } from '../../driver/agent-commands.ts';
import { cutBytes } from '../../driver/cut-bytes.ts';
import type { ResultMemory } from '../../driver/result-memory.ts';
import { AgentError } from '../../driver/runtime-driver.ts';
import { toAgentError } from '../agent-errors.ts';
import { withoutNul } from '../without-nul.ts';
import type { AgentTransport, SmallRequest } from './agent-transport.ts';
import { EventBudget } from './event-budget.ts';
import { readLines } from './line-buffer.ts';

const command = Compile(AgentCommand);
const logPage = Compile(AgentLogPage);
const commandEvent = Compile(AgentCommandEvent);
const resultEvent = Compile(CommandResultEvent);

/**
 * Most bytes of one stream of a result: its kept beginning as JSON, plus room for the notice of cut output and for the
 * count of pieces.
 */
const MAX_RESULT_BYTES = LIMITS.outputStreamBytes + 64 * 1024;

/** The commands of one instance, over connections of their own. Validates every response before use. */
export class AgentHttpCommands implements AgentCommands {
  readonly #transport: AgentTransport;
  readonly #budget: EventBudget;

  /** @param budget limit on the rate of the sandbox's events. */
  constructor(transport: AgentTransport, budget = new EventBudget()) {
    this.#budget = budget;
    this.#transport = transport;
  }

  start(id: string, request: StartCommand, signal: AbortSignal): Promise<AgentCommand> {
    return this.#ask({ method: 'PUT', path: pathOf(id), message: request }, signal);
  }

  get(id: string, signal: AbortSignal): Promise<AgentCommand> {
    return this.#ask({ method: 'GET', path: pathOf(id) }, signal);
  }

  end(id: string, signal: AbortSignal): Promise<AgentCommand> {
    return this.#ask({ method: 'GET', path: pathOf(id, 'end') }, signal);
  }

  prevent(id: string, signal: AbortSignal): Promise<AgentCommand> {
    return this.#ask({ method: 'POST', path: pathOf(id, 'prevent'), message: {} }, signal);
  }

  async result(id: string, signal: AbortSignal, resultMemory?: ResultMemory): Promise<AgentCommandResult> {
    const texts = { stdout: new ResultText(), stderr: new ResultText() };
    for await (const line of this.#lines(pathOf(id, 'result'), {}, signal)) {
      const waiting = resultMemory?.hold(line.length, signal);
      if (waiting) await waiting;
      const event = parse(line);
      if (!resultEvent.Check(event))
        throw new AgentError('misbehaved', 'The agent sent a result that does not match the protocol.');
      if (event.type === 'done') {
        const truncated = cutBytes(event.truncated);
        return { command: withoutNul(event.command), stdout: texts.stdout.text, stderr: texts.stderr.text, truncated };
      }
      texts[event.type].add(event.data);
      const restMs = this.#budget.spend(line.length);
      if (restMs > 0) await pause(restMs, signal);
    }
    throw new AgentError('misbehaved', 'The agent ended a result early.');
  }

  async readLog(id: string, afterSeq: number, limit: number, signal: AbortSignal): Promise<AgentLogPage> {
    const asked = { method: 'POST', path: pathOf(id, 'logs'), message: { afterSeq, limit } } as const;
    const page = await this.#transport.ask('commands', asked, logPage, signal, MAX_COMMAND_MESSAGE_BYTES);
    if (page.entries.length > limit)
      throw new AgentError('misbehaved', 'The agent sent a page with more entries than its limit.');
    page.entries.reduce(follow, afterSeq);
    return page;
  }

  async *follow(id: string, afterSeq: number, signal: AbortSignal): AsyncGenerator<AgentCommandEvent, void> {
    let last = afterSeq;
    for await (const line of this.#lines(pathOf(id, 'follow'), { afterSeq }, signal)) {
      const event = parse(line);
      if (!commandEvent.Check(event))
        throw new AgentError('misbehaved', 'The agent sent an event that does not match the protocol.');
      if (event.type === 'log') last = follow(last, event.entry);
      yield event.type === 'exit' ? { ...event, command: withoutNul(event.command) } : event;
      if (event.type === 'exit') return;
      const restMs = this.#budget.spend(line.length);
      if (restMs > 0) await pause(restMs, signal);
    }
    throw new AgentError('misbehaved', 'The agent ended the stream of a command before its exit.');
  }

  async writeStdin(id: string, bytes: Buffer, close: boolean, signal: AbortSignal): Promise<void> {
    const message = { dataBase64: bytes.toString('base64'), close };
    await this.#transport.act('commands', { method: 'POST', path: pathOf(id, 'stdin'), message }, signal);
  }

  async resize(id: string, size: TerminalSize, signal: AbortSignal): Promise<void> {
    await this.#transport.act('commands', { method: 'POST', path: pathOf(id, 'resize'), message: size }, signal);
  }

  kill(id: string, name: string, signal: AbortSignal): Promise<AgentCommand> {
    return this.#ask({ method: 'POST', path: pathOf(id, 'kill'), message: { signal: name } }, signal);
  }

  openTerminal(id: string, terminal: NewTerminal | undefined, signal: AbortSignal): Promise<Duplex> {
    const query = terminal
      ? `?${new URLSearchParams(Object.entries(terminal).map(([name, value]) => [name, `${value}`]))}`
      : '';
    return this.#transport.upgrade(`/terminals/${encodeURIComponent(id)}${query}`, TERMINAL_PROTOCOL, signal);
  }

  async #ask(asked: SmallRequest, signal: AbortSignal): Promise<AgentCommand> {
    return withoutNul(await this.#transport.ask('commands', asked, command, signal));
  }

  async *#lines(path: string, message: object, signal: AbortSignal): AsyncGenerator<string, void> {
    const { body } = await this.#transport.open('commands', { method: 'POST', path, message }, signal);
    try {
      yield* readLines(body, MAX_COMMAND_MESSAGE_BYTES);
    } catch (error) {
      throw toAgentError(error, signal, 'commands');
    } finally {
      body.on('error', () => undefined).destroy();
    }
  }
}

/** Most JSON values in a line. */
const MAX_EVENT_VALUES = 1_000;

/** Collects one stream of a result, up to the requested length. */
class ResultText {
  readonly #pieces: string[] = [];
  #bytes = 0;

  get text(): string {
    return this.#pieces.join('');
  }

  add(piece: string): void {
    this.#bytes += jsonBytes(piece) + 1;
    if (this.#bytes > MAX_RESULT_BYTES)
      throw new AgentError('misbehaved', 'The agent sent more output than the request allows.');
    this.#pieces.push(piece);
  }
}

/** Returns the number of an entry, which may leave out entries that the agent has dropped. */
function follow(last: number, { seq }: AgentLogEntry): number {
  if (seq > last) return seq;
  throw new AgentError('misbehaved', `The agent sent entry ${seq} of a log after entry ${last}.`);
}

function pathOf(id: string, action?: string): string {
  return `/commands/${encodeURIComponent(id)}${action === undefined ? '' : `/${action}`}`;
}

function parse(line: string): unknown {
  try {
    return parsePlainJson(line, MAX_EVENT_VALUES);
  } catch (error) {
    throw new AgentError('misbehaved', 'The agent sent a line that is not valid JSON or has too many values.', {
      cause: error,
    });
  }
}
