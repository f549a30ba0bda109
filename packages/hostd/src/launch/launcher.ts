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
  /** The authorities that sandboxes trust. */
  trust: TrustBundles;
  /** Mount points, seen in hostd's own mount namespace only. */
  mountsDir: string;
  /** One folder an instance, with its agent's socket. */
  socketsDir: string;
  /** The user of the server, which opens the sockets. */
  service: { uid: number; gid: number };
  /** Agent and kernels, as every sandbox has them. */
  guestDir: string;
}

export interface LauncherOptions {
  /** What runs as the first process; the agent unless given. */
  command?: readonly string[];
  /** Told of each step that is done, with how long it took. */
  onStep?: (step: string, durationMs: number) => void;
}

/** For one incarnation of a sandbox. */
export interface Launch {
  name: InstanceName;
  spec: LaunchSpec;
  template: TemplateVersion;
}

/** For nobody yet. */
export interface PooledLaunch {
  key: InstanceKey;
  network: NetworkClass;
  resources: LaunchSpec['resources'];
  template: TemplateVersion;
}

/** What both come down to. */
interface Plan extends PooledLaunch {
  isPooled: boolean;
  /** Has the policy of whom it is for enforced; without an owner egress refuses everything from the address. */
  gate: (slot: number) => Promise<void>;
  undoGate: () => Promise<void>;
  /** Where its datagrams do not go; undefined where none of them flow. */
  denied: readonly string[] | undefined;
}

type Running = Omit<PooledRecord, 'status'>;

/** Launches instances, step by step; one that fails or is aborted undoes what it made. */
export class Launcher {
  readonly #host: LauncherDeps;
  readonly #options: LauncherOptions;

  constructor(deps: LauncherDeps, options: LauncherOptions = {}) {
    this.#host = deps;
    this.#options = options;
  }

  /** Throws `launch_failed`, `no_capacity` or the signal's reason, and then nothing of the instance is left. */
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

  /** The same for an instance that a sandbox will claim; it has no policy yet, so a gated one is closed. */
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
      // Only now: should the undoing itself fail, nobody else is given the slot, and the sweep tries again.
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
      // Undone after the group, by when its processes are gone.
      undo.push('container', () => host.runtime.remove(container));
      undo.push('cgroup', () => host.cgroups.destroy(key));
      host.cgroups.create(key);
    });
    const init = await step('create', async () => {
      const first = livingProcess(await this.#createContainer(container, undo));
      host.runtime.bound(container);
      // From here on, what has the slot's ids and addresses outlives this hostd.
      host.slots.transfer(slot, key, first);
      return first;
    });
    await step('network', () => this.#connect(plan, slot, init.pid, undo));
    // Before its first process starts others, which inherit its time slice.
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

  /** Runs a step, tells of it, and goes on only if nobody has given up meanwhile. */
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
        // What is enforced is in force before there is a link that it could be missing on.
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
