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
/** A forked kernel comes within milliseconds, or when the host is busier than starting one would leave it. */
const FORKED_KERNEL_MS = 1_000;

export interface AgentHttpClientOptions {
  /** Told that no connection is left, as `RuntimeDriver.connect` says. */
  onBroken?: () => void;
  /** Has a Python kernel arrive at the agent; rejects when none will. */
  forkKernel?: () => Promise<void>;
  /** Told of each context that is opened in a language whose kernels are started in the sandbox. */
  noteLanguage?: (language: StartedLanguage) => void;
  /** One is there already, for the first context that needs one. */
  kernelWaits?: boolean;
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
  readonly #forkKernel: (() => Promise<void>) | undefined;
  /** The contexts that a kernel was brought for. */
  readonly #brought = new Set<string>();
  readonly #budget: EventBudget;
  readonly #lines: SandboxLines;
  readonly #connections: RunConnections;
  #kernelWaits: boolean;

  constructor(
    socketPath: string,
    {
      onBroken,
      forkKernel,
      noteLanguage,
      kernelWaits = false,
      longLines = new LongLines(),
      events,
    }: AgentHttpClientOptions = {},
  ) {
    this.#forkKernel = forkKernel;
    this.#noteLanguage = noteLanguage;
    this.#kernelWaits = kernelWaits;
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
    this.#brought.delete(contextId);
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

  /** A kernel is brought for each context once, however often it is asked for: whoever comes later waits for the same. */
  #withKernel(contextId: string, request: OpenContext): OpenContext {
    if (request.language !== 'python') this.#noteLanguage?.(request.language);
    const isBrought = request.language === 'python' && this.#forkKernel !== undefined && !this.#brought.has(contextId);
    if (!isBrought) return request;
    this.#brought.add(contextId);
    if (!this.#kernelWaits) this.#bringKernel();
    this.#kernelWaits = false;
    return { ...request, kernelWaitMs: FORKED_KERNEL_MS };
  }

  /** Beside the opening of its context, which waits for it at the agent. */
  #bringKernel(): void {
    this.#forkKernel?.().catch(() => {
      // The agent starts one; if it does not hear of it, it does so after its wait.
      this.#requests
        .act('DELETE', '/expected-kernel', undefined, AbortSignal.timeout(FORKED_KERNEL_MS))
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
