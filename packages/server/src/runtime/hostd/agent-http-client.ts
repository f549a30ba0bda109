import {
  AgentContext,
  AgentErrorBody,
  AgentHealth,
  AgentRunEvent,
  MAX_AGENT_EVENT_BYTES,
  type OpenContext,
  PROTOCOL_VERSION,
  parsePlainJson,
  type StartRun,
} from '@cloche/protocol';
import { Compile } from 'typebox/compile';
import { type Dispatcher, Pool } from 'undici';
import { pause } from '../deadline.ts';
import { type AgentClient, AgentFault } from '../runtime-driver.ts';
import { AgentHttpCommands } from './agent-http-commands.ts';
import { AgentHttpFiles } from './agent-http-files.ts';
import { openAgentTunnel } from './agent-tunnel.ts';
import { EventBudget } from './event-budget.ts';
import { isConnectionError, MalformedAnswer, readJson } from './http-response.ts';
import { LineOverdue, LongLines, SandboxLines } from './long-lines.ts';
import { LineTooLong, readLines } from './ndjson.ts';

const health = Compile(AgentHealth);
const openedContext = Compile(AgentContext);
const runEvent = Compile(AgentRunEvent);
const errorBody = Compile(AgentErrorBody);

/** The lines of a traceback are the most that an event has. */
const MAX_EVENT_VALUES = 10_000;
const MAX_ERROR_BYTES = 64 * 1024;
/** Runs of one sandbox at a time; a few connections more are kept for what ends them. */
const MAX_RUNS = 128;
const CONTROL_CONNECTIONS = 8;
/** A quiet connection stays: its end tells at once that the agent is gone. */
const KEEP_ALIVE_MS = 3_600_000;
/** A forked kernel comes within milliseconds, or when the host is busier than starting one would leave it. */
const FORKED_KERNEL_MS = 1_000;
/** How long an answer may go on after its last event. */
const END_MS = 1_000;

type AgentMethod = 'GET' | 'PUT' | 'POST' | 'DELETE';

export interface AgentHttpClientOptions {
  /** Told that no connection is left, as `RuntimeDriver.connect` says. */
  onBroken?: () => void;
  /** Has a Python kernel arrive at the agent; rejects when none will. */
  forkKernel?: () => Promise<void>;
  /** What the clients of all agents share. */
  longLines?: LongLines;
}

/** Speaks to the agent on one instance's socket. Nothing that it answers is believed before it is checked. */
export class AgentHttpClient implements AgentClient {
  readonly commands: AgentHttpCommands;
  readonly files: AgentHttpFiles;
  readonly #pool: Pool;
  readonly #socketPath: string;
  readonly #forkKernel: (() => Promise<void>) | undefined;
  readonly #budget = new EventBudget();
  readonly #lines: SandboxLines;
  #runs = 0;

  constructor(socketPath: string, { onBroken, forkKernel, longLines = new LongLines() }: AgentHttpClientOptions = {}) {
    this.#forkKernel = forkKernel;
    this.#socketPath = socketPath;
    this.commands = new AgentHttpCommands(socketPath);
    this.files = new AgentHttpFiles(socketPath);
    this.#lines = new SandboxLines(longLines);
    this.#pool = new Pool('http://agent', {
      socketPath,
      connections: MAX_RUNS + CONTROL_CONNECTIONS,
      pipelining: 1,
      // Runs may say nothing for minutes: every wait has its own limit in its signal.
      headersTimeout: 0,
      bodyTimeout: 0,
      keepAliveMaxTimeout: KEEP_ALIVE_MS,
    });
    this.#pool.on('disconnect', () => {
      if (!this.#pool.destroyed && this.#pool.stats.connected === 0) onBroken?.();
    });
  }

  get isClosed(): boolean {
    return this.#pool.destroyed;
  }

  /** @throws AgentFault `gone` as long as nobody answers. */
  async checkHealth(signal: AbortSignal): Promise<void> {
    const response = await this.#request('GET', '/health', undefined, signal);
    const { protocolVersion } = await this.#guard(() => readJson(response, health, MAX_ERROR_BYTES), signal);
    if (protocolVersion !== PROTOCOL_VERSION) {
      throw new AgentFault('misbehaved', `the agent speaks protocol ${protocolVersion}, not ${PROTOCOL_VERSION}`);
    }
  }

  async setEnvironment(env: Readonly<Record<string, string>>, signal: AbortSignal): Promise<void> {
    await this.#act('PUT', '/environment', { env }, signal);
  }

  async openContext(contextId: string, request: OpenContext, signal: AbortSignal) {
    const isForked = request.language === 'python' && this.#forkKernel !== undefined;
    if (isForked) this.#bringKernel();
    const message = isForked ? { ...request, forkedKernelMs: FORKED_KERNEL_MS } : request;
    const response = await this.#request('PUT', contextPath(contextId), message, signal);
    const { cwd, language } = await this.#guard(() => readJson(response, openedContext, MAX_ERROR_BYTES), signal);
    return { cwd, language };
  }

  async closeContext(contextId: string, signal: AbortSignal): Promise<void> {
    await this.#act('DELETE', contextPath(contextId), undefined, signal);
  }

  async interrupt(contextId: string, signal: AbortSignal): Promise<void> {
    await this.#act('POST', `${contextPath(contextId)}/interrupt`, undefined, signal);
  }

  async restart(contextId: string, signal: AbortSignal): Promise<void> {
    await this.#act('POST', `${contextPath(contextId)}/restart`, undefined, signal);
  }

  async *run(contextId: string, request: StartRun, signal: AbortSignal): AsyncGenerator<AgentRunEvent, void> {
    if (this.#runs >= MAX_RUNS) throw new AgentFault('busy', `${MAX_RUNS} runs are under way in the sandbox`);
    this.#runs += 1;
    let body: Dispatcher.ResponseData['body'] | undefined;
    let isDone = false;
    try {
      const response = await this.#request('POST', `${contextPath(contextId)}/runs`, request, signal);
      body = response.body;
      using room = this.#lines.open(signal, (error) => body?.destroy(error));
      const chunks = body.iterator({ destroyOnReturn: false });
      for await (const line of readLines(chunks, MAX_AGENT_EVENT_BYTES, room)) {
        const event = parseEvent(line);
        isDone = event.type === 'done';
        yield event;
        if (isDone) return;
        const restMs = this.#budget.spend(line.length);
        if (restMs > 0) await pause(restMs, signal);
      }
    } catch (error) {
      throw asFault(error, signal);
    } finally {
      this.#runs -= 1;
      // After `done` the connection is kept for the next run; before it, closing it is what cancels the run.
      if (isDone) body?.dump({ limit: MAX_ERROR_BYTES, signal: AbortSignal.timeout(END_MS) }).catch(() => undefined);
      else body?.on('error', () => undefined).destroy();
    }
    throw new AgentFault('misbehaved', 'the stream of a run ended without its done');
  }

  openTunnel(port: number, signal: AbortSignal) {
    return openAgentTunnel(this.#socketPath, port, signal);
  }

  async close(): Promise<void> {
    this.files.close();
    await this.commands.close();
    await this.#pool.destroy();
  }

  /** Beside the opening of its context, which waits for it at the agent. */
  #bringKernel(): void {
    this.#forkKernel?.().catch(() => {
      // The agent starts one; if it does not hear of it, it does so after its wait.
      this.#act('DELETE', '/forked-kernel', undefined, AbortSignal.timeout(FORKED_KERNEL_MS)).catch(() => undefined);
    });
  }

  async #act(method: AgentMethod, path: string, message: object | undefined, signal: AbortSignal): Promise<void> {
    const response = await this.#request(method, path, message, signal);
    await this.#guard(() => response.body.dump({ limit: MAX_ERROR_BYTES }), signal);
  }

  /** @throws AgentFault for every answer but a success. */
  async #request(method: AgentMethod, path: string, message: object | undefined, signal: AbortSignal) {
    const response = await this.#guard(
      () =>
        this.#pool.request({
          method,
          path,
          signal,
          onInfo: refuseInterim,
          ...(message ? { body: JSON.stringify(message), headers: JSON_HEADERS } : {}),
        }),
      signal,
    );
    if (response.statusCode < 300) return response;
    const { error } = await this.#guard(() => readJson(response, errorBody, MAX_ERROR_BYTES), signal);
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

/** An agent sends none, and each of an endless row of them would be one too many to read. */
function refuseInterim({ statusCode }: { statusCode: number }): never {
  throw new MalformedAnswer(`an interim answer (${statusCode})`);
}

const JSON_HEADERS = { 'content-type': 'application/json' };

const FAULTS: ReadonlyMap<string, AgentFault['kind']> = new Map([
  ['invalid_cwd', 'invalid_cwd'],
  ['not_found', 'not_found'],
  ['language_unavailable', 'language_unavailable'],
  ['kernel_failed', 'kernel_failed'],
  ['timeout', 'timeout'],
  ['queue_full', 'busy'],
]);

function contextPath(contextId: string): string {
  return `/contexts/${encodeURIComponent(contextId)}`;
}

function parseEvent(line: string): AgentRunEvent {
  let event: unknown;
  try {
    event = parsePlainJson(line, MAX_EVENT_VALUES);
  } catch (error) {
    throw new AgentFault('misbehaved', 'an event that is no JSON of its size', { cause: error });
  }
  if (!runEvent.Check(event)) throw new AgentFault('misbehaved', 'an event that does not fit the protocol');
  // The schema's own type is wider in its `format` alone; it has just been checked.
  return event as AgentRunEvent;
}

function isMalformed(error: unknown): error is Error {
  return error instanceof MalformedAnswer || error instanceof LineTooLong || error instanceof LineOverdue;
}

/** An abort stays what its signal says; what remains is the peer's doing. */
function asFault(error: unknown, signal: AbortSignal): unknown {
  if (error instanceof AgentFault) return error;
  if (signal.aborted) return signal.reason;
  if (isMalformed(error)) {
    return new AgentFault('misbehaved', error.message, { cause: error });
  }
  // Whatever else undici reports is a connection that broke, or an answer that is no HTTP.
  const kind = isConnectionError(error) ? 'gone' : 'misbehaved';
  return new AgentFault(kind, error instanceof Error ? error.message : String(error), { cause: error });
}
