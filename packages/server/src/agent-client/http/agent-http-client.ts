import { parsePlainJson } from '@cloche/node-support';
import {
  AgentContext,
  AgentHealth,
  AgentRunEvent,
  type OpenContext,
  PROTOCOL_VERSION,
  type StartedLanguage,
} from '@cloche/protocol';
import { Compile } from 'typebox/compile';
import { Pool } from 'undici';
import { pause } from '../../base/deadline.ts';
import type { ResultRoom } from '../../base/result-rooms.ts';
import { type AgentClient, AgentFault, type RunCell } from '../../driver/runtime-driver.ts';
import { AgentHttpCommands } from './agent-http-commands.ts';
import { AgentHttpFiles } from './agent-http-files.ts';
import { AgentRequests, agentErrorBody, asFault, type Faults, refusal } from './agent-requests.ts';
import { openAgentTunnel } from './agent-tunnel.ts';
import { EventBudget, type SharedBudget } from './event-budget.ts';
import { type LineStore, LongLines, SandboxLines } from './long-lines.ts';
import type { LineRoom } from './ndjson.ts';
import { RunConnections } from './run-connections.ts';

const health = Compile(AgentHealth);
const openedContext = Compile(AgentContext);
const runEvent = Compile(AgentRunEvent);

/** The lines of a traceback are the most that an event has. */
const MAX_EVENT_VALUES = 10_000;
/** For everything but runs, files and tunnels, which have their own. */
const CONTROL_CONNECTIONS = 8;
/** A quiet connection stays: its end tells at once that the agent is gone. */
const KEEP_ALIVE_MS = 3_600_000;
/** The host provides a kernel within milliseconds, unless it is so busy that the agent had better start one. */
const KERNEL_WAIT_MS = 1_000;

export interface AgentHttpClientOptions {
  /** Told that no connection is left, as `RuntimeDriver.connect` says. */
  onBroken?: () => void;
  /** Asks the host for a Python kernel at the agent; rejects when it has none. */
  provideKernel?: () => Promise<void>;
  /** Called with the language of each context whose kernel is started in the sandbox. */
  noteLanguage?: (language: StartedLanguage) => void;
  /** A kernel is there already, for the first context that needs one. */
  kernelReady?: boolean;
  /** What the clients of all agents share. */
  longLines?: LongLines;
  events?: SharedBudget;
}

/** Speaks to the agent on one instance's socket. Nothing that it answers is believed before it is checked. */
export class AgentHttpClient implements AgentClient {
  readonly commands: AgentHttpCommands;
  readonly files: AgentHttpFiles;
  readonly #pool: Pool;
  readonly #requests: AgentRequests;
  readonly #socketPath: string;
  readonly #noteLanguage: ((language: StartedLanguage) => void) | undefined;
  readonly #provideKernel: (() => Promise<void>) | undefined;
  /** Contexts for which the host was asked. */
  readonly #askedFor = new Set<string>();
  readonly #budget: EventBudget;
  readonly #lines: SandboxLines;
  readonly #connections: RunConnections;
  #kernelReady: boolean;

  constructor(
    socketPath: string,
    {
      onBroken,
      provideKernel,
      noteLanguage,
      kernelReady = false,
      longLines = new LongLines(),
      events,
    }: AgentHttpClientOptions = {},
  ) {
    this.#provideKernel = provideKernel;
    this.#noteLanguage = noteLanguage;
    this.#kernelReady = kernelReady;
    this.#socketPath = socketPath;
    this.#budget = new EventBudget(events);
    this.commands = new AgentHttpCommands(socketPath, this.#budget);
    this.files = new AgentHttpFiles(socketPath);
    this.#lines = new SandboxLines(longLines);
    this.#connections = new RunConnections(socketPath);
    this.#pool = new Pool('http://agent', {
      socketPath,
      connections: CONTROL_CONNECTIONS,
      pipelining: 1,
      // Every wait has its own limit in its signal.
      headersTimeout: 0,
      bodyTimeout: 0,
      keepAliveMaxTimeout: KEEP_ALIVE_MS,
    });
    this.#requests = new AgentRequests(this.#pool, FAULTS);
    this.#pool.on('disconnect', () => {
      if (!this.#pool.destroyed && this.#pool.stats.connected === 0) onBroken?.();
    });
  }

  get isClosed(): boolean {
    return this.#pool.destroyed;
  }

  /** @throws AgentFault `gone` as long as nobody answers. */
  async checkHealth(signal: AbortSignal): Promise<void> {
    const { protocolVersion } = await this.#requests.ask({ method: 'GET', path: '/health' }, health, signal);
    if (protocolVersion !== PROTOCOL_VERSION) {
      throw new AgentFault('misbehaved', `the agent speaks protocol ${protocolVersion}, not ${PROTOCOL_VERSION}`);
    }
  }

  async setEnvironment(env: Readonly<Record<string, string>>, signal: AbortSignal): Promise<void> {
    await this.#requests.act('PUT', '/environment', { env }, signal);
  }

  async openContext(contextId: string, request: OpenContext, signal: AbortSignal) {
    const message = this.#withKernel(contextId, request);
    const asked = { method: 'PUT', path: contextPath(contextId), message } as const;
    const { cwd, language } = await this.#requests.ask(asked, openedContext, signal);
    return { cwd, language };
  }

  async closeContext(contextId: string, signal: AbortSignal): Promise<void> {
    this.#askedFor.delete(contextId);
    await this.#requests.act('DELETE', contextPath(contextId), undefined, signal);
  }

  async interrupt(contextId: string, signal: AbortSignal): Promise<void> {
    await this.#requests.act('POST', `${contextPath(contextId)}/interrupt`, undefined, signal);
  }

  async restart(contextId: string, signal: AbortSignal): Promise<void> {
    await this.#requests.act('POST', `${contextPath(contextId)}/restart`, undefined, signal);
  }

  async *run(
    contextId: string,
    request: RunCell,
    signal: AbortSignal,
    room?: ResultRoom,
  ): AsyncGenerator<AgentRunEvent, void> {
    signal.throwIfAborted();
    const connection = this.#connections.acquire();
    const abort = () => connection.destroy(signal.reason);
    signal.addEventListener('abort', abort, { once: true });
    using store = this.#lines.open(signal, (error) => connection.destroy(asFault(error, signal)));
    const lineRoom = roomForLines(store, room, signal);
    let isDone = false;
    try {
      const { open, ...cell } = request;
      const opening = open && { open: this.#withKernel(contextId, open) };
      connection.start(JSON.stringify({ contextId, ...opening, ...cell }));
      while (!isDone) {
        const line = await connection.nextLine(lineRoom);
        const waiting = room?.hold(line.length, signal);
        if (waiting) await waiting;
        const event = parseEvent(line);
        isDone = event.type === 'done';
        yield event;
        const restMs = isDone ? 0 : this.#budget.spend(line.length);
        if (restMs > 0) await pause(restMs, signal);
      }
    } finally {
      signal.removeEventListener('abort', abort);
      this.#connections.release(connection, isDone);
    }
  }

  openTunnel(port: number, signal: AbortSignal) {
    return openAgentTunnel(this.#socketPath, port, signal);
  }

  async close(): Promise<void> {
    this.files.close();
    this.#connections.close();
    await this.commands.close();
    await this.#pool.destroy();
  }

  /** Asks the host for a kernel once for each context, however often that is opened: later requests wait for the same one. */
  #withKernel(contextId: string, request: OpenContext): OpenContext {
    if (request.language !== 'python') this.#noteLanguage?.(request.language);
    const asksForKernel =
      request.language === 'python' && this.#provideKernel !== undefined && !this.#askedFor.has(contextId);
    if (!asksForKernel) return request;
    this.#askedFor.add(contextId);
    if (!this.#kernelReady) this.#askForKernel();
    this.#kernelReady = false;
    return { ...request, kernelWaitMs: KERNEL_WAIT_MS };
  }

  /** Runs beside the opening of the context, which waits for the kernel at the agent. */
  #askForKernel(): void {
    this.#provideKernel?.().catch(() => {
      // The agent starts one now; without this message it does so after its wait.
      this.#requests
        .act('DELETE', '/expected-kernel', undefined, AbortSignal.timeout(KERNEL_WAIT_MS))
        .catch(() => undefined);
    });
  }
}

/** Returns the memory for lines that are not complete yet. It asks the run's own room before the line store. */
function roomForLines(store: LineStore, room: ResultRoom | undefined, signal: AbortSignal): LineRoom {
  if (!room) return store;
  return {
    hold(bytes) {
      const waiting = room.hold(bytes, signal);
      return waiting ? waiting.then(() => store.hold(bytes)) : store.hold(bytes);
    },
    release: () => store.release(),
  };
}

const FAULTS: Faults = new Map([
  ['invalid_cwd', 'invalid_cwd'],
  ['not_found', 'not_found'],
  ['language_unavailable', 'language_unavailable'],
  ['kernel_failed', 'kernel_failed'],
  ['process_limit', 'process_limit'],
  ['timeout', 'timeout'],
  ['queue_full', 'busy'],
]);

function contextPath(contextId: string): string {
  return `/contexts/${encodeURIComponent(contextId)}`;
}

/** @throws AgentFault for what is no event; a refusal of the run is one too. */
function parseEvent(line: string): AgentRunEvent {
  let event: unknown;
  try {
    event = parsePlainJson(line, MAX_EVENT_VALUES);
  } catch (error) {
    throw new AgentFault('misbehaved', 'an event that is no JSON of its size', { cause: error });
  }
  if (!runEvent.Check(event)) {
    if (agentErrorBody.Check(event)) throw refusal(event.error, FAULTS);
    throw new AgentFault('misbehaved', 'an event that does not fit the protocol');
  }
  // The schema's own type is wider in its `format` alone; it has just been checked.
  return event as AgentRunEvent;
}
