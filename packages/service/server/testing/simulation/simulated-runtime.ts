/** The runtime as one simulated server reaches it: every call takes time, and may be lost. */

import {
  type AgentClient,
  type Instance,
  type InstanceName,
  type InstanceUse,
  LaunchError,
  type Launched,
  type LaunchSpec,
  type Metering,
  type PlaceListing,
  type RuntimeDriver,
  type Versions,
} from '@cloche/runtime';
import type { FakeRuntimeDriver } from '@cloche/testkit';
import { AgentLinks, gone } from './agent-links.ts';
import type { Peer } from './faults.ts';
import type { FrozenAgents } from './frozen-agents.ts';
import type { Mechanism } from './mechanisms.ts';
import type { Seams } from './seams.ts';
import type { VirtualTime } from './virtual-time.ts';

export interface RuntimeWorld {
  /** Mechanisms that are switched off. */
  readonly without: ReadonlySet<Mechanism>;
  readonly runtime: FakeRuntimeDriver;
  readonly frozen: FrozenAgents;
  readonly seams: Seams;
  readonly time: VirtualTime;
  /** Called when a server asks the runtime to stop an instance, before it does. */
  readonly beforeStop: (sandboxId: string, generation: number) => void;
  /** Called after each launch. */
  readonly launched: () => void;
  /** Called when an agent starts a command that it did not know. */
  readonly commandStarted: (sandboxId: string, commandId: string) => void;
}

export interface SimulatedRuntime {
  readonly driver: RuntimeDriver;
  /** Closes the connections of a process that has ended. */
  closeAll(): void;
}

const nameOf = ({ sandboxId, generation }: InstanceName) => `${sandboxId}/${generation}`;
const unreachable = () => new LaunchError('unreachable', 'the host does not answer');

/** Returns the runtime for `peer`. What no simulation uses yet is refused. */
export function runtimeFor(peer: Peer, world: RuntimeWorld): SimulatedRuntime {
  const { runtime, frozen, seams, time, beforeStop, launched, without } = world;
  const ask = <T>(label: string, act: () => Promise<T>, signal?: AbortSignal) =>
    seams.call(peer, 'host', label, act, { lost: unreachable, signal });
  const agents = new AgentLinks(peer, world);
  const driver: Partial<RuntimeDriver & Metering & Versions> = {
    name: runtime.name,
    isolation: runtime.isolation,
    launch: (id: string, generation: number, spec: LaunchSpec, signal: AbortSignal): Promise<Launched> =>
      ask(
        `launch ${id}/${generation}`,
        async () => {
          const made = await runtime.launch(id, generation, spec, signal);
          launched();
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
        const use = await runtime.stop(id, generation);
        frozen.look();
        return use;
      }),
    freezing: {
      freeze: (name, signal) => ask(`freeze ${nameOf(name)}`, () => frozen.freeze(name, signal), signal),
      thaw: (name, signal) => ask(`thaw ${nameOf(name)}`, () => frozen.thaw(name, signal), signal),
    },
    parking: {
      keep: (name, signal) => ask(`keep ${nameOf(name)}`, () => runtime.kept.keep(name), signal),
      park: (name, signal) =>
        ask(
          `park ${nameOf(name)}`,
          async () => {
            const parked = await runtime.kept.park(name);
            frozen.look();
            return parked;
          },
          signal,
        ),
      parked: (signal) => ask('parked', () => runtime.kept.parked(), signal),
      removeParked: (name, signal) => ask(`remove ${nameOf(name)}`, () => runtime.kept.removeParked(name), signal),
    },
    find: (instance: Instance, signal: AbortSignal) =>
      ask(`find ${instance.sandboxId}/${instance.generation}`, () => runtime.find(instance), signal),
    list: (): Promise<readonly PlaceListing[]> =>
      ask('list', () => runtime.list()).catch((unknown: Error) => [{ place: 'fake', unknown }]),
    uses: () => ask('uses', () => runtime.uses()),
    usesOf: (instances, signal) => ask('uses of', () => runtime.usesOf(instances), signal),
    capture: (name, request, signal) =>
      ask(`capture ${name.sandboxId}/${name.generation}`, () => runtime.capture(name, request, signal), signal),
    deriveVersion: (request) => ask('derive', () => runtime.deriveVersion(request)),
    capturedVersionRefs: () => ask('made versions', () => runtime.capturedVersionRefs()),
    removeVersion: ({ id, madeAt }) =>
      ask(`remove ${id}`, () =>
        runtime.removeVersion({ id, madeAt: without.has('time of making') ? Number.MAX_VALUE : madeAt }),
      ),
    measure: (instances) => ask('measure', () => runtime.measure(instances)),
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
      return agents.client(inner, instance);
    },
  };
  // Sound: a simulation calls nothing else; a missing method would throw.
  const whole = driver as RuntimeDriver & Metering & Versions;
  return { driver: { ...whole, metering: whole, versions: whole }, closeAll: () => agents.closeAll() };
}
