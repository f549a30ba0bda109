import type { Duplex } from 'node:stream';
import {
  AgentCommand,
  AgentCommandEvent,
  AgentErrorBody,
  AgentLogPage,
  CommandResultEvent,
  MAX_COMMAND_MESSAGE_BYTES,
  type StartCommand,
  TERMINAL_PROTOCOL,
} from '@cloche/protocol';
import { Compile } from 'typebox/compile';
import { type Dispatcher, Pool } from 'undici';
import type { AgentCommandResult, AgentCommands, NewTerminal } from '../agent-commands.ts';
import { pause } from '../deadline.ts';
import { AgentFault } from '../runtime-driver.ts';
import { upgradeToAgent } from './agent-tunnel.ts';
import { EventBudget } from './event-budget.ts';
import { isConnectionError, MalformedAnswer, readJson } from './http-response.ts';
import { LineTooLong, readLines } from './ndjson.ts';

const command = Compile(AgentCommand);
const logPage = Compile(AgentLogPage);
const commandEvent = Compile(AgentCommandEvent);
const resultEvent = Compile(CommandResultEvent);
const errorBody = Compile(AgentErrorBody);

const MAX_SMALL_BYTES = 64 * 1024;
/** Each command that runs has one request that waits for its end; the rest is for who follows and acts. */
const CONNECTIONS = 256;
/** The head of a stream, and room for the line that says what was cut. */
const RESULT_SLACK_BYTES = 4096;
const JSON_HEADERS = { 'content-type': 'application/json' };

const FAULTS: ReadonlyMap<string, AgentFault['kind']> = new Map([
  ['invalid_cwd', 'invalid_cwd'],
  ['not_found', 'not_found'],
  ['conflict', 'conflict'],
  ['timeout', 'timeout'],
  ['queue_full', 'busy'],
]);

/** Commands over one instance's socket, on connections of their own. Nothing that comes back is believed unchecked. */
export class AgentHttpCommands implements AgentCommands {
  readonly #socketPath: string;
  readonly #pool: Pool;
  readonly #budget = new EventBudget();

  constructor(socketPath: string) {
    this.#socketPath = socketPath;
    this.#pool = new Pool('http://agent', {
      socketPath,
      connections: CONNECTIONS,
      pipelining: 1,
      // Commands may be silent for hours: every wait has its own limit in its signal.
      headersTimeout: 0,
      bodyTimeout: 0,
    });
  }

  start(id: string, request: StartCommand, signal: AbortSignal): Promise<AgentCommand> {
    return this.#ask('PUT', pathOf(id), request, signal);
  }

  get(id: string, signal: AbortSignal): Promise<AgentCommand> {
    return this.#ask('GET', pathOf(id), undefined, signal);
  }

  end(id: string, signal: AbortSignal): Promise<AgentCommand> {
    return this.#ask('GET', pathOf(id, 'end'), undefined, signal);
  }

  async result(id: string, signal: AbortSignal): Promise<AgentCommandResult> {
    const texts = { stdout: new ResultText(), stderr: new ResultText() };
    for await (const line of this.#lines(pathOf(id, 'result'), {}, signal)) {
      const event = parse(line);
      if (!resultEvent.Check(event)) throw new AgentFault('misbehaved', 'a result that does not fit the protocol');
      if (event.type !== 'done') texts[event.type].add(event.data);
      else {
        const { truncated } = event;
        return { command: event.command, stdout: texts.stdout.text, stderr: texts.stderr.text, truncated };
      }
    }
    throw new AgentFault('misbehaved', 'a result without its end');
  }

  async readLog(id: string, afterSeq: number, limit: number, signal: AbortSignal): Promise<AgentLogPage> {
    const response = await this.#request('POST', pathOf(id, 'logs'), { afterSeq, limit }, signal);
    return this.#guard(() => readJson(response, logPage, MAX_COMMAND_MESSAGE_BYTES), signal);
  }

  async *follow(id: string, afterSeq: number, signal: AbortSignal): AsyncGenerator<AgentCommandEvent, void> {
    for await (const line of this.#lines(pathOf(id, 'follow'), { afterSeq }, signal)) {
      const event = parse(line);
      if (!commandEvent.Check(event)) throw new AgentFault('misbehaved', 'an event that does not fit the protocol');
      yield event;
      if (event.type === 'exit') return;
      const restMs = this.#budget.spend(line.length);
      if (restMs > 0) await pause(restMs, signal);
    }
    throw new AgentFault('misbehaved', 'the stream of a command ended without its exit');
  }

  async writeStdin(id: string, bytes: Buffer, close: boolean, signal: AbortSignal): Promise<void> {
    const message = { dataBase64: bytes.toString('base64'), close };
    const response = await this.#request('POST', pathOf(id, 'stdin'), message, signal);
    await this.#guard(() => response.body.dump({ limit: MAX_SMALL_BYTES }), signal);
  }

  kill(id: string, name: string, signal: AbortSignal): Promise<AgentCommand> {
    return this.#ask('POST', pathOf(id, 'kill'), { signal: name }, signal);
  }

  openTerminal(id: string, terminal: NewTerminal | undefined, signal: AbortSignal): Promise<Duplex> {
    const query = terminal
      ? `?${new URLSearchParams(Object.entries(terminal).map(([name, value]) => [name, `${value}`]))}`
      : '';
    return upgradeToAgent(this.#socketPath, `/terminals/${encodeURIComponent(id)}${query}`, TERMINAL_PROTOCOL, signal);
  }

  async close(): Promise<void> {
    await this.#pool.destroy();
  }

  async #ask(method: Method, path: string, message: object | undefined, signal: AbortSignal): Promise<AgentCommand> {
    const response = await this.#request(method, path, message, signal);
    return this.#guard(() => readJson(response, command, MAX_SMALL_BYTES), signal);
  }

  async *#lines(path: string, message: object, signal: AbortSignal): AsyncGenerator<string, void> {
    const { body } = await this.#request('POST', path, message, signal);
    try {
      yield* readLines(body, MAX_COMMAND_MESSAGE_BYTES);
    } catch (error) {
      throw asFault(error, signal);
    } finally {
      body.on('error', () => undefined).destroy();
    }
  }

  /** @throws AgentFault for every answer but a success. */
  async #request(method: Method, path: string, message: object | undefined, signal: AbortSignal) {
    const body = message && { body: JSON.stringify(message), headers: JSON_HEADERS };
    const response = await this.#guard(
      () => this.#pool.request({ method, path, signal, onInfo: refuseInterim, ...body }),
      signal,
    );
    if (response.statusCode < 300) return response;
    const { error } = await this.#guard(() => readJson(response, errorBody, MAX_SMALL_BYTES), signal);
    throw new AgentFault(FAULTS.get(error.code) ?? 'internal', error.message.slice(0, 500));
  }

  async #guard<T>(ask: () => Promise<T>, signal: AbortSignal): Promise<T> {
    try {
      return await ask();
    } catch (error) {
      throw asFault(error, signal);
    }
  }
}

type Method = Extract<Dispatcher.HttpMethod, 'GET' | 'PUT' | 'POST'>;

/** One stream of a result, no longer than what was asked for. */
class ResultText {
  readonly #pieces: string[] = [];
  #bytes = 0;

  get text(): string {
    return this.#pieces.join('');
  }

  add(piece: string): void {
    this.#bytes += Buffer.byteLength(piece) + 1;
    if (this.#bytes > MAX_RESULT_BYTES) throw new AgentFault('misbehaved', 'more output than was asked for');
    this.#pieces.push(piece);
  }
}

/** What is no UTF-8 may take three bytes for each that was printed. */
const MAX_RESULT_BYTES = 3 * 8 * 1024 * 1024 + RESULT_SLACK_BYTES;

/** An agent sends none, and each of an endless row of them would be one too many to read. */
function refuseInterim(): never {
  throw new MalformedAnswer('an interim answer');
}

function pathOf(id: string, action?: string): string {
  return `/commands/${encodeURIComponent(id)}${action === undefined ? '' : `/${action}`}`;
}

function parse(line: string): unknown {
  try {
    return JSON.parse(line);
  } catch (error) {
    throw new AgentFault('misbehaved', 'a line that is no JSON', { cause: error });
  }
}

/** An abort stays what its signal says; what remains is the peer's doing. */
function asFault(error: unknown, signal: AbortSignal): unknown {
  if (error instanceof AgentFault) return error;
  if (signal.aborted) return signal.reason;
  if (error instanceof MalformedAnswer || error instanceof LineTooLong) {
    return new AgentFault('misbehaved', error.message, { cause: error });
  }
  const kind = isConnectionError(error) ? 'gone' : 'misbehaved';
  return new AgentFault(kind, error instanceof Error ? error.message : String(error), { cause: error });
}
