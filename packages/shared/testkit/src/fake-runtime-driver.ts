import { setImmediate } from 'node:timers/promises';
import { orAbort } from '@cloche/node-support';
import type {
  CapturedVersion,
  CapturedVersionRef,
  CaptureInstance,
  DeriveVersion,
  TemplateVersionManifest,
} from '@cloche/protocol';
import {
  type AgentClient,
  AgentError,
  CaptureError,
  type Freezing,
  type Instance,
  type InstanceHistory,
  type InstanceName,
  type InstanceUse,
  type IsolationClaims,
  LaunchError,
  type Launched,
  type LaunchHints,
  type LaunchSpec,
  type MeasuredInstance,
  type Metering,
  type Parking,
  type PlaceListing,
  type RuntimeDriver,
  type Versions,
} from '@cloche/runtime';
import { FakeAgent } from './fake-agent.ts';
import { FakeFreezing } from './fake-freezing.ts';
import { fakeManifest } from './fake-manifest.ts';
import { type FakeInstance, FakeParking } from './fake-parking.ts';
import { FakeVersions } from './fake-versions.ts';

/** A driver whose instances exist only in memory. Passes the suite of the real drivers. Tests can make it fail. */
export class FakeRuntimeDriver implements RuntimeDriver, Metering, Versions {
  readonly name = 'fake';
  readonly metering = this;
  readonly versions = this;
  /** Set it to undefined for a host that cannot freeze. */
  freezing: Freezing | undefined = new FakeFreezing((name) => this.#liveOf(name));
  readonly isolation: IsolationClaims = {
    networkModes: ['unrestricted', 'deny-all'],
    disk: 'bounded',
    kernel: 'own',
    memory: 'kernel',
    agentShare: 'own',
    pythonKernels: 'started',
    hostRestarts: 'unnoticed',
  };
  manifests: TemplateVersionManifest[];
  /** All requested launches, in order. */
  readonly launches: { sandboxId: string; generation: number; spec: LaunchSpec; hints: LaunchHints }[] = [];
  /** Errors for the next launches, one each. */
  readonly launchErrors: Error[] = [];
  /** If set, launches wait for it. */
  launchGate: Promise<void> | undefined;
  /** Whether a launch reports that the agent answers already, as for an instance that was launched ahead. */
  launchesAhead = false;
  /** Ids of sandboxes that cannot be stopped at the moment. */
  readonly stuck = new Set<string>();
  /** Ids of sandboxes whose agents speak a protocol that the server does not. */
  readonly incompatible = new Set<string>();
  /** Ids of sandboxes on a second place, which does not answer. */
  readonly unreachable = new Set<string>();
  /** If set, the host does not answer. */
  isDown = false;
  /** The clock of the host. */
  now = () => Date.now();
  readonly #versions = new FakeVersions(() => this.now());
  /** Captured versions, by id. */
  readonly captured = this.#versions.byId;
  /** Errors for the next captures, one each. */
  readonly captureErrors: Error[] = [];
  /** If set, captures wait for it. */
  captureGate: Promise<void> | undefined;
  readonly #instances = new Map<string, FakeInstance>();
  readonly kept = new FakeParking(this.#instances, () => this.#requireUp());
  /** Set it to undefined for a host that keeps no disks. */
  parking: Parking | undefined = this.kept;

  constructor(manifests: TemplateVersionManifest[] = [fakeManifest('python-node'), fakeManifest('node')]) {
    this.manifests = manifests;
  }

  /** Makes launches wait until the returned function is called. */
  holdLaunches(): () => void {
    const gate = Promise.withResolvers<void>();
    this.launchGate = gate.promise;
    return () => {
      this.launchGate = undefined;
      gate.resolve();
    };
  }

  /** Ends an instance as if it had been killed from outside. */
  lose(sandboxId: string): void {
    for (const [key, { instance, agent }] of this.#instances) {
      if (instance.sandboxId !== sandboxId) continue;
      this.#instances.delete(key);
      agent.kill();
    }
  }

  /** Returns the agent of the last generation of a sandbox. */
  agentOf(sandboxId: string): FakeAgent {
    return this.#instanceOf(sandboxId).agent;
  }

  /** Returns the agents of what lives, of each generation. */
  agents(): FakeAgent[] {
    return [...this.#instances.values()].map(({ agent }) => agent);
  }

  /** Adds to what the sandbox's instance has used. */
  spend(sandboxId: string, { cpuMs = 0, egressBytes = 0, ingressBytes = 0 }: Partial<InstanceUse>): void {
    const { use } = this.#instanceOf(sandboxId);
    use.cpuMs += cpuMs;
    use.egressBytes += egressBytes;
    use.ingressBytes += ingressBytes;
  }

  #instanceOf(sandboxId: string): FakeInstance {
    const found = [...this.#instances.values()].filter(({ instance }) => instance.sandboxId === sandboxId);
    const latest = found.toSorted((one, other) => other.instance.generation - one.instance.generation)[0];
    if (!latest) throw new Error(`no instance of ${sandboxId}`);
    return latest;
  }

  /** Replace it to see what is announced. */
  async expectLaunch(_spec: LaunchSpec, _owner: string, _signal: AbortSignal): Promise<void> {}

  async launch(
    sandboxId: string,
    generation: number,
    spec: LaunchSpec,
    signal: AbortSignal,
    hints: LaunchHints = {},
  ): Promise<Launched> {
    this.launches.push({ sandboxId, generation, spec, hints });
    if (this.isDown) throw unreachable();
    if (this.launchGate) await orAbort(this.launchGate, signal);
    await setImmediate();
    signal.throwIfAborted();
    const fault = this.launchErrors.shift();
    if (fault) throw fault;
    if (!this.isolation.networkModes.includes(spec.network.mode)) {
      throw new LaunchError('unsupported', `cannot enforce ${spec.network.mode}`);
    }
    const { templateVersionId } = spec.source;
    const version = this.captured.get(templateVersionId);
    const manifest = version?.captured.manifest ?? this.manifests.find(({ id }) => id === templateVersionId);
    if (!manifest) throw new LaunchError('template_not_found', `no template version ${templateVersionId}`);
    const key = `${sandboxId}/${generation}`;
    const existing = this.#instances.get(key);
    if (existing) return { instance: existing.instance, agentAnswers: false };
    const disk = this.kept.diskFor({ sandboxId, generation }, spec) ?? version?.disk.copy();
    const instance: Instance = {
      sandboxId,
      generation,
      templateVersionId,
      startedAt: new Date().toISOString(),
      place: { fake: key },
    };
    const use = { sandboxId, generation, cpuMs: 0, egressBytes: 0, ingressBytes: 0 };
    const agent = new FakeAgent(manifest.languages, () => this.lose(sandboxId), disk);
    this.#instances.set(key, { instance, spec, use, agent });
    return { instance, agentAnswers: this.launchesAhead };
  }

  async connect({ sandboxId, generation }: Instance, signal: AbortSignal, onBroken?: () => void): Promise<AgentClient> {
    signal.throwIfAborted();
    const live = this.#instances.get(`${sandboxId}/${generation}`);
    if (!live) {
      this.#requireUp();
      throw new AgentError('gone', 'the agent does not answer');
    }
    if (this.incompatible.has(sandboxId)) throw new AgentError('incompatible', 'the agent speaks another protocol');
    return live.agent.client(onBroken);
  }

  async stop(sandboxId: string, generation: number): Promise<InstanceUse | undefined> {
    this.#requireUp();
    if (this.stuck.has(sandboxId)) throw new LaunchError('failed', 'a mount is busy');
    const key = `${sandboxId}/${generation}`;
    const live = this.#instances.get(key);
    live?.agent.kill();
    this.#instances.delete(key);
    return live?.use;
  }

  #liveOf({ sandboxId, generation }: InstanceName): FakeInstance {
    this.#requireUp();
    const live = this.#instances.get(`${sandboxId}/${generation}`);
    if (!live) throw new AgentError('gone', `no instance of ${sandboxId}`);
    return live;
  }

  async uses(): Promise<readonly InstanceUse[]> {
    this.#requireUp();
    return [...this.#instances.values()].map(({ use }) => ({ ...use }));
  }

  async usesOf(instances: readonly InstanceName[]): Promise<readonly InstanceUse[]> {
    return (await this.uses()).filter((use) => instances.some(({ sandboxId }) => sandboxId === use.sandboxId));
  }

  async measure(instances: readonly InstanceName[]): Promise<readonly MeasuredInstance[]> {
    this.#requireUp();
    return instances.flatMap(({ sandboxId, generation }) => {
      const live = this.#instances.get(`${sandboxId}/${generation}`);
      if (!live) return [];
      const { egressBytes, ingressBytes } = live.use;
      const occupied = { memoryBytes: 2 ** 20, diskBytes: 2 ** 16, inodes: 20, processes: 2 };
      const measurement = { at: Date.now(), cpu: 0.5, ...occupied, egressBytes, ingressBytes };
      return [{ sandboxId, generation, measurement, diskLimitBytes: 2 ** 27, inodesLimit: 2 ** 12 }];
    });
  }

  /** Returns one sample, of ten seconds ago. */
  async history(instance: InstanceName, fromMs: number): Promise<InstanceHistory> {
    const [now] = await this.measure([instance]);
    if (!now) return { samples: [] };
    const sample = { ...now.measurement, at: now.measurement.at - 10_000 };
    return { now, samples: sample.at >= fromMs ? [sample] : [] };
  }

  async find({ sandboxId, generation }: Instance): Promise<Instance | undefined> {
    this.#requireUp();
    if (this.unreachable.has(sandboxId)) throw unreachable();
    const live = this.#instances.get(`${sandboxId}/${generation}`);
    return live && { ...live.instance };
  }

  async list(): Promise<readonly PlaceListing[]> {
    if (this.isDown) return [{ place: 'fake', unknown: unreachable() }];
    const instances = this.instances().filter(({ sandboxId }) => !this.unreachable.has(sandboxId));
    const second = { place: 'second', unknown: unreachable() };
    return [{ place: 'fake', instances }, ...(this.unreachable.size === 0 ? [] : [second])];
  }

  /** Returns what lives, also while the host does not answer. */
  instances(): Instance[] {
    return [...this.#instances.values()].map(({ instance }) => ({ ...instance }));
  }

  async templateVersions(): Promise<readonly TemplateVersionManifest[]> {
    this.#requireUp();
    return this.manifests;
  }

  async capture(name: InstanceName, request: CaptureInstance, signal: AbortSignal): Promise<CapturedVersion> {
    this.#requireUp();
    const key = `${name.sandboxId}/${name.generation}`;
    const live = this.#instances.get(key);
    if (!live) throw new CaptureError('gone', `no instance ${key}`);
    live.agent.kill();
    this.#instances.delete(key);
    if (this.captureGate) await orAbort(this.captureGate, signal);
    const fault = this.captureErrors.shift();
    if (fault) throw fault;
    return this.#versions.capture(live.agent.disk, live.instance.templateVersionId, request);
  }

  async deriveVersion(request: DeriveVersion): Promise<CapturedVersion> {
    this.#requireUp();
    return this.#versions.derive(request, (from) => this.manifests.some(({ id }) => id === from));
  }

  async capturedVersionRefs(): Promise<readonly CapturedVersionRef[]> {
    this.#requireUp();
    return this.#versions.refs();
  }

  async removeVersion(version: CapturedVersionRef): Promise<void> {
    this.#requireUp();
    const isUsed = this.instances().some(({ templateVersionId }) => templateVersionId === version.id);
    if (isUsed) throw new CaptureError('in_use', 'an instance runs on it');
    this.#versions.remove(version);
  }

  async check(): Promise<readonly []> {
    this.#requireUp();
    return [];
  }

  #requireUp(): void {
    if (this.isDown) throw unreachable();
  }
}

function unreachable(): LaunchError {
  return new LaunchError('unreachable', 'the host does not answer');
}
