/** The runtime as one simulated server reaches it: every call takes time, and may be lost. */
import type { FakeRuntimeDriver } from '@cloche/testkit';
import {
  type AgentClient,
  AgentError,
  type Instance,
  type InstanceUse,
  LaunchError,
  type Launched,
  type LaunchSpec,
  type PlaceListing,
  type RunCell,
  type RuntimeDriver,
} from '../../src/driver/runtime-driver.ts';
import type { Peer } from './faults.ts';
import { type Mechanism, runRequest } from './mechanisms.ts';
import type { Seams } from './seams.ts';
import type { VirtualTime } from './virtual-time.ts';

type RunEvents = AsyncIterator<Awaited<ReturnType<AsyncIterator<RunEventOf>['next']>>['value'], void>;
type RunEventOf = ReturnType<AgentClient['run']> extends AsyncIterable<infer Event> ? Event : never;

export interface RuntimeWorld {
  /** Mechanisms that are switched off. */
  readonly without: ReadonlySet<Mechanism>;
  readonly runtime: FakeRuntimeDriver;
  readonly seams: Seams;
  readonly time: VirtualTime;
  /** Called when a server asks the runtime to stop an instance, before it does. */
  readonly beforeStop: (sandboxId: string, generation: number) => void;
  /** Called after each launch. */
  readonly launched: (sandboxId: string) => void;
}

export interface SimulatedRuntime {
  readonly driver: RuntimeDriver;
  /** Closes the connections of a process that has ended. */
  closeAll(): void;
}

const unreachable = () => new LaunchError('unreachable', 'the host does not answer');
const gone = () => new AgentError('gone', 'the connection broke');

/** Returns the runtime for `peer`. What no simulation uses yet is refused. */
export function runtimeFor(peer: Peer, world: RuntimeWorld): SimulatedRuntime {
  const { runtime, seams, time, beforeStop, launched, without } = world;
  const ask = <T>(label: string, act: () => Promise<T>, signal?: AbortSignal) =>
    seams.call(peer, 'host', label, act, { lost: unreachable, signal });
  const agents = new AgentLinks(peer, world);
  const driver: Partial<RuntimeDriver> = {
    name: runtime.name,
    isolation: runtime.isolation,
    launch: (id: string, generation: number, spec: LaunchSpec, signal: AbortSignal): Promise<Launched> =>
      ask(
        `launch ${id}/${generation}`,
        async () => {
          const made = await runtime.launch(id, generation, spec, signal);
          launched(id);
          return made;
        },
        signal,
      ),
    stop: (id: string, generation: number): Promise<InstanceUse | undefined> =>
      ask(`stop ${id}/${generation}`, async () => {
        const others = without.has('generation of a stop') ? runtime.instances() : [];
        for (const other of others.filter(({ sandboxId }) => sandboxId === id)) {
          beforeStop(id, other.generation);
          await runtime.stop(id, other.generation);
        }
        beforeStop(id, generation);
        return runtime.stop(id, generation);
      }),
    find: (instance: Instance, signal: AbortSignal) =>
      ask(`find ${instance.sandboxId}/${instance.generation}`, () => runtime.find(instance), signal),
    list: (): Promise<readonly PlaceListing[]> =>
      ask('list', () => runtime.list()).catch((unknown: Error) => [{ place: 'fake', unknown }]),
    uses: () => ask('uses', () => runtime.uses()),
    templateVersions: () => ask('versions', () => runtime.templateVersions()),
    check: () => ask('check', () => runtime.check()),
    connect: async (instance: Instance, signal: AbortSignal, onBroken?: () => void): Promise<AgentClient> => {
      const broken = () => time.afterFor(peer, seams.latency(), 'agent closed', () => onBroken?.());
      const name = `connect ${instance.sandboxId}/${instance.generation}`;
      const connect = () => runtime.connect(instance, signal, broken);
      const inner = await seams.call(peer, 'agent', name, connect, {
        lost: gone,
        signal,
        // Servers and agents share a host: a connection to a socket of a living process is not lost on its way.
        isCertain: true,
      });
      return agents.client(inner, `${instance.sandboxId}/${instance.generation}`);
    },
  };
  // Sound: a simulation calls nothing else; a missing method would throw.
  return { driver: driver as RuntimeDriver, closeAll: () => agents.closeAll() };
}

/** Time after which an agent notices that the other end of a connection is gone without a word. */
const KEEP_ALIVE_MS = 15_000;

/** The connections of a server to agents. */
class AgentLinks {
  readonly #peer: Peer;
  readonly #seams: Seams;
  readonly #time: VirtualTime;
  readonly #without: ReadonlySet<Mechanism>;
  readonly #runs = new Set<() => void>();

  constructor(peer: Peer, { seams, time, without }: RuntimeWorld) {
    this.#peer = peer;
    this.#seams = seams;
    this.#time = time;
    this.#without = without;
  }

  client(inner: AgentClient, name: string): AgentClient {
    const ask = <T>(label: string, act: () => Promise<T>, signal?: AbortSignal) =>
      this.#seams.call(this.#peer, 'agent', `${label} ${name}`, act, { lost: gone, signal });
    const client: Partial<AgentClient> = {
      isRunning: (signal) => ask('is running', () => inner.isRunning(signal), signal),
      setEnvironment: (env, signal) => ask('environment', () => inner.setEnvironment(env, signal), signal),
      openContext: (id, request, signal) => ask(`open ${id}`, () => inner.openContext(id, request, signal), signal),
      closeContext: (id, signal) => ask(`close ${id}`, () => inner.closeContext(id, signal), signal),
      run: (id, cell, signal) => this.#run(inner, { id, cell, name }, signal),
      close: () => inner.close(),
    };
    // Sound: a simulation calls nothing else; a missing method would throw.
    return client as AgentClient;
  }

  /** The agents learn at once that a process has ended, or some seconds later that its machine has. */
  closeAll(): void {
    for (const close of [...this.#runs]) close();
  }

  async *#run(
    inner: AgentClient,
    { id, cell, name }: { id: string; cell: RunCell; name: string },
    signal: AbortSignal,
  ) {
    const time = this.#time;
    const connection = new AbortController();
    let events: RunEvents | undefined;
    const close = () => {
      this.#runs.delete(close);
      connection.abort(gone());
      void events?.return?.().catch(() => undefined);
    };
    const closeIn = (ms: number) => time.afterFor(undefined, ms, 'run closed', close);
    // The agent has heard nothing for a while then.
    const onLost = () => closeIn(time.random.next() * KEEP_ALIVE_MS);
    this.#runs.add(close);
    const ask = <T>(label: string, act: () => Promise<T>) =>
      this.#seams.call(this.#peer, 'agent', `${label} ${cell.runId} ${name}`, act, { lost: gone, signal, onLost });
    try {
      let next = await ask('run', () => {
        events = inner.run(id, runRequest(cell, this.#without), connection.signal)[Symbol.asyncIterator]();
        return events.next();
      });
      while (!next.done) {
        yield next.value;
        next = await ask('more', async () => (events ? events.next() : { done: true as const, value: undefined }));
      }
    } finally {
      closeIn(this.#seams.latency());
    }
  }
}
