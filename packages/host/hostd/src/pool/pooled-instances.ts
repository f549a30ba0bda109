import { join } from 'node:path';
import { processorMs } from '@cloche/node-support';
import type { SpawnedLanguage } from '@cloche/protocol';
import type { GroupUsage } from '../cgroups/group-usage.ts';
import type { InstanceKey } from '../instance/instance-key.ts';
import type { InstanceRecords } from '../instance/instance-records.ts';
import { versionOfSource } from '../instance/instance-source.ts';
import type { Launcher } from '../launch/launcher.ts';
import type { EgressGate } from '../network/egress-gate.ts';
import type { TrustBundles } from '../network/trust-bundle.ts';
import type { ProcessorGroups } from '../processor/processor-groups.ts';
import { hasOwnZygote, type LaunchableVersions } from '../storage/launchable-versions.ts';
import type { KernelForks } from '../zygote/kernel-forks.ts';
import { hasMemoryToSpare } from './host-memory.ts';
import type { PoolCapacity } from './pool-capacity.ts';
import type { PoolKind } from './pool-kind.ts';
import type { PoolMaker } from './pool-maker.ts';
import { waitForAgent } from './wait-for-agent.ts';
import { WantedLanguages } from './wanted-languages.ts';

const ANSWER_MS = 5_000;
/** Longest time until an instance is warm. It exceeds the time that an agent has for warm imports. */
const WARM_MS = 70_000;
/** Request that loads the zygote of a sandbox. The response comes when the first kernel waits, or none will. */
const WARM_REQUEST = 'GET /spare-kernels/python';

export interface PooledInstancesDeps {
  records: InstanceRecords;
  egress: EgressGate;
  kernels: KernelForks;
  trust: TrustBundles;
  templates: LaunchableVersions;
  launcher: Launcher;
  processor: Pick<ProcessorGroups, 'setPriority' | 'usedUs'>;
  /** Reads what a whole instance holds. */
  instanceUsage: Pick<GroupUsage, 'read'>;
  places: PoolCapacity;
  removeInstance: (key: InstanceKey) => Promise<void>;
  /** Folder with one folder for each instance, which holds its agent's socket. */
  socketsDir: string;
}

/** Makes instances that wait for a sandbox: launched, linked, with an agent that answers and a forked kernel. */
export class PooledInstances implements PoolMaker {
  readonly #deps: PooledInstancesDeps;
  readonly #languages = new WantedLanguages();
  /** Certificate that each gated instance trusts. */
  readonly #authorities = new Map<InstanceKey, string>();

  constructor(deps: PooledInstancesDeps) {
    this.#deps = deps;
  }

  async make(
    key: InstanceKey,
    { templateVersionId, network, resources, owner }: PoolKind,
    signal: AbortSignal,
  ): Promise<void> {
    const { egress, trust, kernels, templates, launcher, processor, socketsDir } = this.#deps;
    const template = await templates.get(templateVersionId);
    kernels.prepare(template);
    if (hasOwnZygote(template)) this.#deps.places.expectOwnZygote(templateVersionId);
    if (network === 'gated') {
      await egress.ready(signal);
      this.#authorities.set(key, trust.gatedCertificate);
    }
    try {
      const isUnlinked = owner !== undefined;
      const source = { kind: 'template', templateVersionId } as const;
      const plan = { key, source, template, resources, network, isUnlinked, sandbox: undefined };
      const running = await launcher.launch(plan, signal);
      await waitForAgent(join(socketsDir, key, 'agent.sock'), signal);
      // The first run of most sandboxes is in Python.
      await kernels.addSpare(key, running);
      for (const language of this.#languages.list()) this.#startKernel(key, language);
      // An instance that loads Python itself gets the lowest priority, so that many of them do not delay sandboxes.
      if (hasOwnZygote(template)) processor.setPriority(key, 'waiting');
    } catch (error) {
      await this.remove(key);
      throw error;
    }
  }

  async warmed(key: InstanceKey, { templateVersionId }: PoolKind): Promise<void> {
    if (!this.#deps.places.hasOwnZygote(templateVersionId)) return;
    const socketPath = join(this.#deps.socketsDir, key, 'agent.sock');
    // The request also fails when the instance ends, which removes it from the pool.
    await waitForAgent(socketPath, AbortSignal.timeout(WARM_MS), WARM_REQUEST).catch(() => undefined);
  }

  /** Notes that a context was opened in that language. Waiting instances get a kernel of it while the demand lasts. */
  recordLanguage(language: SpawnedLanguage): void {
    if (!this.#languages.note(language) || !hasMemoryToSpare()) return;
    const { records } = this.#deps;
    for (const key of records.keys()) if (records.read(key)?.status === 'pooled') this.#startKernel(key, language);
  }

  /** Asks an instance's agent to start a kernel ahead. Failures are ignored: the first context then starts one. */
  #startKernel(key: InstanceKey, language: SpawnedLanguage): void {
    const socketPath = join(this.#deps.socketsDir, key, 'agent.sock');
    const request = `PUT /spare-kernels/${language}`;
    waitForAgent(socketPath, AbortSignal.timeout(ANSWER_MS), request).catch(() => undefined);
  }

  async remove(key: InstanceKey): Promise<void> {
    this.#authorities.delete(key);
    await this.#deps.removeInstance(key);
  }

  isFresh(key: InstanceKey): boolean {
    const { records, templates, trust } = this.#deps;
    const record = records.findPooled(key);
    const authority = this.#authorities.get(key);
    if (authority !== undefined && authority !== trust.gatedCertificate) return false;
    return record !== undefined && !templates.isRetired(versionOfSource(record.source));
  }

  processorMs(key: InstanceKey): number {
    return processorMs(process.pid) + (this.#deps.processor.usedUs(key) ?? 0) / 1000;
  }

  hasMemoryToSpare(): boolean {
    return hasMemoryToSpare();
  }

  placesOf(templateVersionId: string): number {
    return this.#deps.places.of(templateVersionId);
  }

  measure(): void {
    const { records, places, instanceUsage, templates } = this.#deps;
    places.keep(new Set(templates.listCaptured().map(({ id }) => id)));
    for (const key of records.keys()) {
      const record = records.read(key);
      // Instances of other versions always take one place, so they need no measurement.
      if (record?.status !== 'pooled') continue;
      const id = versionOfSource(record.source);
      if (places.hasOwnZygote(id)) places.note(id, instanceUsage.read(key)?.memoryBytes ?? 0);
    }
  }
}
