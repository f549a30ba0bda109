import { onAbort, parsePlainJson, pause } from '@cloche/node-support';
import {
  AGENT_PROTOCOL_VERSION,
  AgentActivity,
  AgentContext,
  AgentContextList,
  AgentHealth,
  AgentPaused,
  AgentRunEvent,
  accepts,
  type OpenContext,
  type PauseAgent,
  PORT_TUNNEL_PROTOCOL,
  type ResumeAgent,
} from '@cloche/protocol';
import { Compile } from 'typebox/compile';
import type { ResultMemory } from '../../driver/result-memory.ts';
import { type AgentClient, AgentError, type RunCell } from '../../driver/runtime-driver.ts';
import { errorTypeOf, type RequestTracing } from '../../tracing.ts';
import type { Dial } from '../agent-endpoint.ts';
import { refusal, StillRunning } from '../agent-errors.ts';
import { withoutNul } from '../without-nul.ts';
import { AgentHttpCommands } from './agent-http-commands.ts';
import { AgentHttpFiles } from './agent-http-files.ts';
import { AgentTransport, agentErrorBody, type SmallRequest } from './agent-transport.ts';
import { EventBudget, type SharedBudget } from './event-budget.ts';
import { type LineMemory, SandboxLineMemory, ServerLineMemory, type StreamLineMemory } from './line-memory.ts';
import { RunConnections } from './run-connections.ts';

const health = Compile(AgentHealth);
const activity = Compile(AgentActivity);
const openedContext = Compile(AgentContext);
const paused = Compile(AgentPaused);
const contextList = Compile(AgentContextList);
const runEvent = Compile(AgentRunEvent);

/** Largest list of open contexts. */
const MAX_CONTEXTS_BYTES = 1024 * 1024;
/** Most JSON values in an event. The largest number occurs in the lines of a traceback. */
const MAX_EVENT_VALUES = 10_000;

/** Is called about each context, so that a driver can supply its kernel. */
export interface ContextHook {
  /** Returns the request to send instead of `request` when a context opens. */
  beforeOpen(agent: AgentHttpClient, contextId: string, request: OpenContext): OpenContext;
  closed(contextId: string): void;
}

export interface AgentHttpClientDeps {
  /** Called when no connection is left, as `RuntimeDriver.connect` describes. */
  onBroken?: () => void;
  contexts?: ContextHook;
  /** Limits on long lines, shared by the clients of all agents. */
  serverLineMemory?: ServerLineMemory;
  events?: SharedBudget;
  tracing?: RequestTracing | undefined;
}

/** HTTP client of one instance's agent. Validates every response before use. */
export class AgentHttpClient implements AgentClient {
  readonly commands: AgentHttpCommands;
  readonly files: AgentHttpFiles;
  readonly #transport: AgentTransport;
  readonly #contexts: ContextHook | undefined;
  readonly #budget: EventBudget;
  readonly #lineMemory: SandboxLineMemory;
  readonly #connections: RunConnections;
  readonly #tracing: RequestTracing | undefined;

  constructor(
    dial: Dial,
    { onBroken, contexts, serverLineMemory = new ServerLineMemory(), events, tracing }: AgentHttpClientDeps = {},
  ) {
    this.#contexts = contexts;
    this.#tracing = tracing;
    this.#transport = new AgentTransport(dial, onBroken, tracing);
    this.#budget = new EventBudget(events);
    this.commands = new AgentHttpCommands(this.#transport, this.#budget);
    this.files = new AgentHttpFiles(this.#transport);
    this.#lineMemory = new SandboxLineMemory(serverLineMemory);
    this.#connections = new RunConnections(this.#transport.dial);
  }

  get isClosed(): boolean {
    return this.#transport.isClosed;
  }

  /** @throws AgentError `gone` while the agent does not answer, `incompatible` for a protocol of another version. */
  async checkHealth(signal: AbortSignal): Promise<void> {
    const { protocolVersion } = await this.#transport.ask(
      'contexts',
      { method: 'GET', path: '/health' },
      health,
      signal,
    );
    if (accepts(AGENT_PROTOCOL_VERSION, protocolVersion)) return;
    const own = `${AGENT_PROTOCOL_VERSION - 1} and ${AGENT_PROTOCOL_VERSION}`;
    throw new AgentError('incompatible', `the agent speaks protocol ${protocolVersion}, this server speaks ${own}`);
  }

  async isRunning(signal: AbortSignal): Promise<boolean> {
    const asked = { method: 'GET', path: '/activity' } as const;
    return (await this.#transport.ask('contexts', asked, activity, signal)).running;
  }

  /** Returns the ids of the open contexts. */
  async openContexts(signal: AbortSignal): Promise<string[]> {
    const asked = { method: 'GET', path: '/contexts' } as const;
    const list = await this.#transport.ask('contexts', asked, contextList, signal, MAX_CONTEXTS_BYTES);
    return list.contexts.map(({ contextId }) => contextId);
  }

  /** Tells the agent that the host provides no kernel for the context that has waited longest for one. */
  async expectNoKernel(signal: AbortSignal): Promise<void> {
    await this.#act({ method: 'DELETE', path: '/expected-kernel' }, signal);
  }

  async pause(token: string, { force, isIdle = false }: { force: boolean; isIdle?: boolean }, signal: AbortSignal) {
    const message = { token, force, ...(isIdle && { isIdle }) } satisfies PauseAgent;
    try {
      await this.#transport.ask('contexts', { method: 'POST', path: '/pause', message }, paused, signal);
      return undefined;
    } catch (error) {
      if (error instanceof StillRunning) return { running: error.running };
      throw error;
    }
  }

  async resume(token: string, woken: { entropy: string; now: number }, signal: AbortSignal): Promise<void> {
    const message = { token, ...woken } satisfies ResumeAgent;
    await this.#act({ method: 'POST', path: '/resume', message }, signal);
  }

  async setEnvironment(env: Readonly<Record<string, string>>, signal: AbortSignal): Promise<void> {
    await this.#act({ method: 'PUT', path: '/environment', message: { env } }, signal);
  }

  async permitSudo(signal: AbortSignal): Promise<void> {
    await this.#act({ method: 'PUT', path: '/sudo' }, signal);
  }

  async openContext(contextId: string, request: OpenContext, signal: AbortSignal) {
    const message = this.#beforeOpen(contextId, request);
    const asked = { method: 'PUT', path: contextPath(contextId), message } as const;
    const { cwd, language } = await this.#transport.ask('contexts', asked, openedContext, signal);
    return withoutNul({ cwd, language });
  }

  async closeContext(contextId: string, signal: AbortSignal): Promise<void> {
    this.#contexts?.closed(contextId);
    await this.#act({ method: 'DELETE', path: contextPath(contextId) }, signal);
  }

  async interrupt(contextId: string, signal: AbortSignal): Promise<void> {
    await this.#act({ method: 'POST', path: `${contextPath(contextId)}/interrupt` }, signal);
  }

  async answer(contextId: string, message: string, signal: AbortSignal): Promise<void> {
    await this.#act({ method: 'POST', path: `${contextPath(contextId)}/messages`, message: { message } }, signal);
  }

  async restart(contextId: string, signal: AbortSignal): Promise<void> {
    await this.#act({ method: 'POST', path: `${contextPath(contextId)}/restart` }, signal);
  }

  async *run(
    contextId: string,
    request: RunCell,
    signal: AbortSignal,
    resultMemory?: ResultMemory,
  ): AsyncGenerator<AgentRunEvent, void> {
    signal.throwIfAborted();
    const connection = this.#connections.acquire();
    using _ = onAbort(signal, () => connection.destroy(signal.reason));
    using streamLines = this.#lineMemory.open(signal, (error) => connection.destroy(error));
    const memory = lineMemoryOf(streamLines, resultMemory, signal);
    const span = this.#tracing?.startChild('agent run', 'client');
    let isDone = false;
    let errorType: string | undefined;
    try {
      const { open, ...cell } = request;
      const opening = open && { open: this.#beforeOpen(contextId, open) };
      connection.start(JSON.stringify({ contextId, ...opening, ...cell, ...(span && { timed: true }) }));
      while (!isDone) {
        const line = await connection.nextLine(memory);
        const waiting = resultMemory?.hold(line.length, signal);
        if (waiting) await waiting;
        const event = parseEvent(line);
        isDone = event.type === 'done';
        if (event.type === 'done') span?.addRemoteWork('agent', 'run', event.data.timings);
        yield event;
        const restMs = isDone ? 0 : this.#budget.spend(line.length);
        if (restMs > 0) await pause(restMs, signal);
      }
    } catch (error) {
      errorType = errorTypeOf(error);
      throw error;
    } finally {
      span?.end(errorType);
      this.#connections.release(connection, isDone);
    }
  }

  openTunnel(port: number, signal: AbortSignal) {
    return this.#transport.upgrade(`/ports/${port}`, PORT_TUNNEL_PROTOCOL, signal);
  }

  async close(): Promise<void> {
    this.#connections.close();
    await this.#transport.close();
  }

  #act(asked: SmallRequest, signal: AbortSignal): Promise<void> {
    return this.#transport.act('contexts', asked, signal);
  }

  #beforeOpen(contextId: string, request: OpenContext): OpenContext {
    return this.#contexts?.beforeOpen(this, contextId, request) ?? request;
  }
}

/** Charges incomplete lines to the budget of the run's result first, then to the server's budget for lines. */
function lineMemoryOf(
  streamLines: StreamLineMemory,
  resultMemory: ResultMemory | undefined,
  signal: AbortSignal,
): LineMemory {
  if (!resultMemory) return streamLines;
  return {
    hold(bytes) {
      const waiting = resultMemory.hold(bytes, signal);
      return waiting ? waiting.then(() => streamLines.hold(bytes)) : streamLines.hold(bytes);
    },
    release: () => streamLines.release(),
  };
}

function contextPath(contextId: string): string {
  return `/contexts/${encodeURIComponent(contextId)}`;
}

/** @throws AgentError for a line that is not a valid event, and for a refusal of the run. */
function parseEvent(line: string): AgentRunEvent {
  let event: unknown;
  try {
    event = parsePlainJson(line, MAX_EVENT_VALUES);
  } catch (error) {
    throw new AgentError('misbehaved', 'The agent sent an event that is not valid JSON or has too many values.', {
      cause: error,
    });
  }
  if (!runEvent.Check(event)) {
    if (agentErrorBody.Check(event)) throw refusal(event.error, 'contexts');
    throw new AgentError('misbehaved', 'The agent sent an event that does not match the protocol.');
  }
  // Sound: the event was just checked, and the schema's static type is wider only in `format`.
  return event as AgentRunEvent;
}
