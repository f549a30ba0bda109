import { chownSync, closeSync, mkdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import type { LaunchSpec } from '@cloche/protocol';
import { addressesOfSlot } from '../addressing/address-plan.ts';
import type { Slots } from '../addressing/slots.ts';
import { HostdError } from '../base/hostd-error.ts';
import { idRangeOfSlot } from '../base/id-range.ts';
import { UndoStack } from '../base/undo-stack.ts';
import type { Cgroups } from '../cgroups/cgroups.ts';
import { type InstanceKey, type InstanceName, instanceKey } from '../instance/instance-key.ts';
import type { InstanceRecords, LiveRecord, PooledRecord } from '../instance/instance-records.ts';
import { errorCode } from '../kernel/libc.ts';
import { identifyProcess, isProcessAlive, type ProcessIdentity } from '../kernel/process-identity.ts';
import { UserNamespace } from '../kernel/user-namespace.ts';
import { deniedToDatagrams } from '../network/datagram-gate.ts';
import type { EgressGate } from '../network/egress-gate.ts';
import { gatedPolicy } from '../network/egress-gate.ts';
import { type NetworkClass, networkClassOf } from '../network/network-class.ts';
import type { SandboxNetwork } from '../network/sandbox-network.ts';
import type { TrustBundles } from '../network/trust-bundle.ts';
import { AGENT_COMMAND } from '../oci/oci-config.ts';
import type { ContainerSpec, Runtime } from '../oci/runtime.ts';
import { threadLimits } from '../oci/visible-limits.ts';
import type { ProcessorGroups } from '../processor/processor-groups.ts';
import type { DiskImages } from '../storage/disk-image.ts';
import type { DiskPromises } from '../storage/disk-promises.ts';
import { ownFiles } from '../storage/own-files.ts';
import {
  makeRootPlaces,
  mountLower,
  mountOverlay,
  mountOwnDisk,
  mountShared,
  openConsole,
  type RootPlaces,
  removeRootPlaces,
  rootPlaces,
} from '../storage/root-file-system.ts';
import type { TemplateVersion } from '../storage/templates.ts';
import { diskIsReleased } from '../teardown/remove-instance.ts';

export interface LauncherDeps {
  records: InstanceRecords;
  slots: Slots;
  cgroups: Cgroups;
  processor: ProcessorGroups;
  diskImages: DiskImages;
  diskPromises: DiskPromises;
  network: SandboxNetwork;
  egress: EgressGate;
  runtime: Runtime;
  /** The certificate authorities that sandboxes trust. */
  trust: TrustBundles;
  /** Mount points, visible only in hostd's own mount namespace. */
  mountsDir: string;
  /** Folder with one folder for each instance, which holds its agent's socket. */
  socketsDir: string;
  /** The user of the server, which opens the sockets. */
  service: { uid: number; gid: number };
  /** Folder of agent and kernels, the same for every sandbox. */
  guestDir: string;
}

export interface LauncherOptions {
  /** Command of the first process; the agent by default. */
  command?: readonly string[];
  /** Called after each step with its duration. */
  onStep?: (step: string, durationMs: number) => void;
}

/** A launch for one incarnation of a sandbox. */
export interface Launch {
  name: InstanceName;
  spec: LaunchSpec;
  template: TemplateVersion;
}

/** A launch ahead of demand, for no sandbox yet. */
export interface PooledLaunch {
  key: InstanceKey;
  network: NetworkClass;
  resources: LaunchSpec['resources'];
  template: TemplateVersion;
}

/** The common form of both kinds of launches. */
interface Plan extends PooledLaunch {
  isPooled: boolean;
  /** Has egress enforce the sandbox's policy. Egress refuses everything from an address without a policy. */
  gate: (slot: number) => Promise<void>;
  undoGate: () => Promise<void>;
  /** Addresses that the sandbox's datagrams may not reach; undefined where no datagrams flow. */
  denied: readonly string[] | undefined;
}

type Running = Omit<PooledRecord, 'status'>;

/** Launches instances, step by step. A launch that fails or is aborted undoes what it made. */
export class Launcher {
  readonly #host: LauncherDeps;
  readonly #options: LauncherOptions;

  constructor(deps: LauncherDeps, options: LauncherOptions = {}) {
    this.#host = deps;
    this.#options = options;
  }

  /**
   * Launches an instance for a sandbox. Throws `launch_failed`, `no_capacity` or the signal's reason, and then nothing
   * of the instance is left.
   */
  async launch({ name, spec, template }: Launch, signal: AbortSignal): Promise<LiveRecord> {
    const { egress } = this.#host;
    const key = instanceKey(name);
    const { network, resources } = spec;
    const policy = gatedPolicy(network);
    const gate = async (slot: number) => {
      if (!policy) return;
      const address = addressesOfSlot(slot).sandbox;
      await egress.register(key, { sandboxId: name.sandboxId, policy, address }, signal);
    };
    const undoGate = () => egress.unregister(key);
    const enforced = { network: networkClassOf(network.mode), gate, undoGate, denied: deniedToDatagrams(network) };
    const plan = { key, isPooled: false, resources, template, ...enforced };
    return this.#launch(plan, signal, (running) => ({ status: 'live', ...name, ...running, network }));
  }

  /** Launches an instance that a sandbox will claim. It has no policy yet, so a gated one reaches nothing. */
  async launchPooled(launch: PooledLaunch, signal: AbortSignal): Promise<PooledRecord> {
    const { egress } = this.#host;
    const gate = async (slot: number) => {
      if (launch.network === 'gated') await egress.vacate(addressesOfSlot(slot).sandbox, signal);
    };
    const plan = { ...launch, isPooled: true, gate, undoGate: async () => {}, denied: undefined };
    return this.#launch(plan, signal, (running) => ({ status: 'pooled', ...running }));
  }

  async #launch<R extends LiveRecord | PooledRecord>(
    plan: Plan,
    signal: AbortSignal,
    recordOf: (running: Running) => R,
  ): Promise<R> {
    const { key } = plan;
    const undo = new UndoStack();
    try {
      const record = await this.#runSteps(plan, undo, signal, recordOf);
      undo.keep();
      return record;
    } catch (cause) {
      await undo.unwind();
      // After the undo: if that fails, the slot stays taken, and the sweep tries again.
      this.#releaseSlot(key);
      this.#host.records.remove(key);
      signal.throwIfAborted();
      throw launchError(cause);
    }
  }

  async #runSteps<R extends LiveRecord | PooledRecord>(
    plan: Plan,
    undo: UndoStack,
    signal: AbortSignal,
    recordOf: (running: Running) => R,
  ): Promise<R> {
    const host = this.#host;
    const { key, template, resources, network } = plan;
    const step = this.#stepper(signal);
    const places = rootPlaces(host.mountsDir, key);

    await step('intent', () => {
      host.diskPromises.require(resources.diskBytes, plan);
      host.records.write(key, { status: 'launching', diskBytes: resources.diskBytes });
    });
    const slot = await step('slot', () => host.slots.acquire(key, livingProcess(process.pid)));
    const idRange = idRangeOfSlot(slot);
    using userNamespace = new UserNamespace(idRange);
    const loopDevice = await step('disk', () => this.#mountDisk(key, resources.diskBytes, places, undo));
    await step('root', () => {
      mountLower(template.rootfsDir, userNamespace, places.lowerDir);
      mountOverlay(places, idRange, ownFiles(network === 'none' ? undefined : host.network.gatewayAddress));
      mountShared(places, host.guestDir, network === 'gated' ? host.trust.gatedDir : host.trust.plainDir);
    });
    const container: ContainerSpec = {
      key,
      bundleDir: host.records.folderOf(key),
      rootDir: places.rootDir,
      diskDir: places.diskDir,
      idRange,
      userNamespacePath: userNamespace.path,
      resources,
      command: this.#options.command ?? AGENT_COMMAND,
      environment: { ...threadLimits(resources), ...template.manifest.env },
    };
    await step('bundle', () => host.runtime.prepare(container));
    await step('cgroup', () => {
      // Pushed first, so that it runs after the group is destroyed and the container's processes are gone.
      undo.push('container', () => host.runtime.remove(container));
      undo.push('cgroup', () => host.cgroups.destroy(key));
      host.cgroups.create(key);
    });
    const init = await step('create', async () => {
      const first = livingProcess(await this.#createContainer(container, undo));
      host.runtime.bound(container);
      // From here on, the sandbox that has the slot's ids and addresses outlives this hostd.
      host.slots.transfer(slot, key, first);
      return first;
    });
    await step('network', () => this.#connect(plan, slot, init.pid, undo));
    // Before the first process starts others, which inherit its time slice.
    if (plan.isPooled) host.processor.setTurn(key, 'launching');
    await step('start', () => host.runtime.start(container));
    await step('detach', () => removeRootPlaces(places));
    return step('record', () => {
      if (!isProcessAlive(init)) throw new Error('the first process of the sandbox ended at once');
      const startedAt = new Date().toISOString();
      const { diskBytes } = resources;
      const templateVersionId = template.manifest.id;
      const record = recordOf({ templateVersionId, startedAt, slot, loopDevice, diskBytes, init });
      host.records.write(key, record);
      return record;
    });
  }

  /** Returns a function that runs a step, reports its duration, and throws if the launch was aborted meanwhile. */
  #stepper(signal: AbortSignal) {
    return async <T>(name: string, act: () => T | Promise<T>): Promise<T> => {
      signal.throwIfAborted();
      const startedAt = performance.now();
      const result = await act();
      this.#options.onStep?.(name, performance.now() - startedAt);
      signal.throwIfAborted();
      return result;
    };
  }

  #releaseSlot(key: InstanceKey): void {
    const { slots } = this.#host;
    const slot = slots.find(key);
    if (slot !== undefined) slots.release(slot, key);
  }

  async #mountDisk(key: InstanceKey, diskBytes: number, places: RootPlaces, undo: UndoStack): Promise<number> {
    undo.push('disk', () => diskIsReleased(key, this.#host));
    makeRootPlaces(places, undo);
    const image = await this.#host.diskImages.open(diskBytes, key);
    return mountOwnDisk(image, places.diskDir);
  }

  async #connect({ network, gate, undoGate, denied }: Plan, slot: number, pid: number, undo: UndoStack): Promise<void> {
    undo.push('link', () => this.#host.network.disconnect(slot));
    switch (network) {
      case 'none':
        return this.#host.network.isolate(pid);
      case 'open':
        return this.#host.network.connect(slot, pid);
      case 'gated':
        undo.push('network policy', undoGate);
        // The policy is in force before the link exists, so no traffic passes without it.
        await gate(slot);
        this.#host.network.connectToEgress(slot, pid);
        if (denied) await this.#host.network.openToDatagrams(slot, pid, denied);
        return;
    }
  }

  async #createContainer(container: ContainerSpec, undo: UndoStack): Promise<number> {
    const { runtime, service, socketsDir } = this.#host;
    const folder = join(socketsDir, container.key);
    undo.push('socket folder', () => rmSync(folder, { recursive: true, force: true }));
    mkdirSync(folder, { mode: 0o750 });
    chownSync(folder, 0, service.gid);
    const console = openConsole(container.diskDir);
    try {
      return await runtime.create(container, console);
    } finally {
      for (const fd of new Set(console)) closeSync(fd);
    }
  }
}

function livingProcess(pid: number): ProcessIdentity {
  const identity = identifyProcess(pid);
  if (identity === undefined) throw new Error('the first process of the sandbox ended at once');
  return identity;
}

function launchError(cause: unknown): HostdError {
  if (cause instanceof HostdError) return cause;
  const message = cause instanceof Error ? cause.message : String(cause);
  const isFull = ['ENOSPC', 'ENOMEM', 'EMFILE', 'ENFILE', 'EAGAIN'].includes(errorCode(cause) ?? '');
  return new HostdError(isFull ? 'no_capacity' : 'launch_failed', message, { cause });
}
