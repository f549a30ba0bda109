/** The connections of one simulated server to agents. Each message takes time and may be lost. */
import { type AgentClient, type AgentCommands, AgentError, type InstanceName, type RunCell } from '@cloche/runtime';
import type { Peer } from './faults.ts';
import { runRequest } from './mechanisms.ts';
import type { RuntimeWorld } from './simulated-runtime.ts';

/** Time after which an agent notices that the other end of a connection is gone without a word. */
const KEEP_ALIVE_MS = 15_000;

export const gone = () => new AgentError('gone', 'the connection broke');

/** Sends a request to an agent and resolves with its answer. */
type Ask = <T>(label: string, act: () => Promise<T>, signal?: AbortSignal) => Promise<T>;

/** Performs what the agent of an instance does, when the instance is not frozen. */
type WhenThawed = <T>(act: () => T | Promise<T>) => Promise<T>;

/** The connection of a server to one agent. */
interface AgentLink {
  readonly sandboxId: string;
  /** The sandbox and its generation. */
  readonly name: string;
  readonly ask: Ask;
  readonly whenThawed: WhenThawed;
}

export class AgentLinks {
  readonly #peer: Peer;
  readonly #world: RuntimeWorld;
  readonly #streams = new Set<() => void>();

  constructor(peer: Peer, world: RuntimeWorld) {
    this.#peer = peer;
    this.#world = world;
  }

  client(inner: AgentClient, { sandboxId, generation }: InstanceName): AgentClient {
    const { seams, frozen, without } = this.#world;
    const name = `${sandboxId}/${generation}`;
    const whenThawed: WhenThawed = (act) => frozen.whenThawed({ sandboxId, generation }, act);
    const ask: Ask = (label, act, signal) => {
      return seams.call(this.#peer, 'agent', `${label} ${name}`, () => whenThawed(act), { lost: gone, signal });
    };
    const client: Partial<AgentClient> = {
      isRunning: (signal) => ask('is running', () => inner.isRunning(signal), signal),
      setEnvironment: (env, signal) => ask('environment', () => inner.setEnvironment(env, signal), signal),
      openContext: (id, request, signal) => ask(`open ${id}`, () => inner.openContext(id, request, signal), signal),
      closeContext: (id, signal) => ask(`close ${id}`, () => inner.closeContext(id, signal), signal),
      run: (id, cell: RunCell, signal) =>
        this.#stream(`${cell.runId} ${name}`, signal, whenThawed, (own) =>
          inner.run(id, runRequest(cell, without), own),
        ),
      pause: (token, request, signal) => ask('pause', () => inner.pause(token, request, signal), signal),
      resume: (token, woken, signal) => ask('resume', () => inner.resume(token, woken, signal), signal),
      commands: this.#commands(inner.commands, { sandboxId, name, ask, whenThawed }),
      close: () => inner.close(),
    };
    // Sound: a simulation calls nothing else; a missing method would throw.
    return client as AgentClient;
  }

  /** The agents learn at once that a process has ended, or some seconds later that its machine has. */
  closeAll(): void {
    for (const close of [...this.#streams]) close();
  }

  #commands(inner: AgentCommands, { sandboxId, name, ask, whenThawed }: AgentLink): AgentCommands {
    const start: AgentCommands['start'] = (id, request, signal) => {
      // Sound: every agent of a simulation is a fake one.
      const agent = inner as AgentCommands & { readonly started: number };
      const before = agent.started;
      const state = inner.start(id, request, signal);
      if (agent.started > before) this.#world.commandStarted(sandboxId, id);
      return state;
    };
    const commands: Partial<AgentCommands> = {
      start: (id, request, signal) => ask(`start ${id}`, () => start(id, request, signal), signal),
      get: (id, signal) => ask(`get ${id}`, () => inner.get(id, signal), signal),
      end: (id, signal) => ask(`end ${id}`, () => inner.end(id, signal), signal),
      result: (id, signal, memory) => ask(`result ${id}`, () => inner.result(id, signal, memory), signal),
      kill: (id, sent, signal) => ask(`kill ${id}`, () => inner.kill(id, sent, signal), signal),
      follow: (id, afterSeq, signal) =>
        this.#stream(`${id} ${name}`, signal, whenThawed, (own) => inner.follow(id, afterSeq, own)),
    };
    // Sound: a simulation calls nothing else; a missing method would throw.
    return commands as AgentCommands;
  }

  async *#stream<Event>(
    name: string,
    signal: AbortSignal,
    whenThawed: WhenThawed,
    open: (signal: AbortSignal) => AsyncIterable<Event>,
  ): AsyncGenerator<Event, void> {
    const { time, seams } = this.#world;
    const connection = new AbortController();
    let events: AsyncIterator<Event> | undefined;
    const close = () => {
      this.#streams.delete(close);
      connection.abort(gone());
      void events?.return?.().catch(() => undefined);
    };
    const closeIn = (ms: number) => time.afterFor(undefined, ms, 'run closed', close);
    // The agent has heard nothing for a while then.
    const onLost = () => closeIn(time.random.next() * KEEP_ALIVE_MS);
    this.#streams.add(close);
    const ask = <T>(label: string, act: () => Promise<T>) =>
      seams.call(this.#peer, 'agent', `${label} ${name}`, () => whenThawed(act), { lost: gone, signal, onLost });
    try {
      let next = await ask('run', () => {
        events = open(connection.signal)[Symbol.asyncIterator]();
        return events.next();
      });
      while (!next.done) {
        yield next.value;
        next = await ask('more', async () => (events ? events.next() : { done: true as const, value: undefined }));
      }
    } finally {
      closeIn(seams.latency());
    }
  }
}
