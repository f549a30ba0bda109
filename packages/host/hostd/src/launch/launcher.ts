import { chownSync, closeSync, mkdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import type { Slots } from '../addressing/slots.ts';
import { HostdError } from '../base/hostd-error.ts';
import { type IdRange, idRangeOfSlot } from '../base/id-range.ts';
import { UndoStack } from '../base/undo-stack.ts';
import type { Cgroups } from '../cgroups/cgroups.ts';
import type { InstanceKey } from '../instance/instance-key.ts';
import type { LiveRecord, PooledRecord } from '../instance/instance-records.ts';
import { errorCode } from '../linux/libc.ts';
import { identifyProcess, isProcessAlive, type ProcessIdentity } from '../linux/process-identity.ts';
import { UserNamespace } from '../linux/user-namespace.ts';
import type { EgressGate } from '../network/egress-gate.ts';
import type { SandboxNetwork } from '../network/sandbox-network.ts';
import type { TrustBundles } from '../network/trust-bundle.ts';
import { AGENT_COMMAND, AGENT_COMMAND_WITH_LIBRARIES } from '../oci/oci-config.ts';
import type { ContainerSpec, Runtime } from '../oci/runtime.ts';
import { threadLimits } from '../oci/visible-limits.ts';
import type { ProcessorGroups } from '../processor/processor-groups.ts';
import { etcFiles } from '../storage/etc-files.ts';
import type { LaunchableVersion } from '../storage/launchable-versions.ts';
import type { Layers, MountedLayer, OpenLayers } from '../storage/layers.ts';
import {
  type LayerFolder,
  mountLayers,
  mountOverlay,
  mountShared,
  mountTemplate,
  openConsole,
  type RootPaths,
  removeMountPoints,
  rootPaths,
} from '../storage/root-file-system.ts';
import { agentSettings } from './agent-settings.ts';
import { connectNetwork } from './connect-network.ts';
import { LaunchDisk, type LaunchDiskDeps } from './launch-disk.ts';
import type { LaunchPlan } from './launch-plan.ts';

export interface LauncherDeps extends LaunchDiskDeps {
  slots: Slots;
  cgroups: Cgroups;
  processor: ProcessorGroups;
  layers: Layers;
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
  onStep?: OnStep;
}

export type OnStep = (step: string, durationMs: number) => void;

type Stepper = <T>(name: string, act: () => T | Promise<T>) => Promise<T>;

/** Where the root of a sandbox is mounted, and whose ids its files have. */
interface RootOfSandbox {
  readonly paths: RootPaths;
  readonly idRange: IdRange;
  readonly userNamespace: UserNamespace;
}

/** A launched instance, apart from the sandbox that has it. */
export type RunningInstance = Omit<PooledRecord, 'status' | 'isUnlinked'>;

/** Launches instances, step by step. A launch that fails or is aborted undoes what it made. */
export class Launcher {
  readonly #host: LauncherDeps;
  readonly #options: LauncherOptions;

  constructor(deps: LauncherDeps, options: LauncherOptions = {}) {
    this.#host = deps;
    this.#options = options;
  }

  /**
   * Launches an instance and writes its record. Throws `launch_failed`, `no_capacity` or the signal's reason, and then
   * nothing of the instance is left.
   */
  async launch(plan: LaunchPlan, signal: AbortSignal, onStep?: OnStep): Promise<RunningInstance> {
    const { key } = plan;
    const undo = new UndoStack();
    try {
      const running = await this.#runSteps(plan, undo, this.#stepper(signal, onStep), signal);
      undo.keep();
      return running;
    } catch (cause) {
      await undo.unwind();
      // After the undo: if that fails, the slot stays taken, and the sweep tries again.
      this.#releaseSlot(key);
      this.#host.records.remove(key);
      signal.throwIfAborted();
      throw launchError(cause);
    }
  }

  async #runSteps(plan: LaunchPlan, undo: UndoStack, step: Stepper, signal: AbortSignal): Promise<RunningInstance> {
    const host = this.#host;
    const { key, source, template } = plan;
    const paths = rootPaths(host.mountsDir, key);

    using disk = new LaunchDisk(host, plan);
    await step('intent', () => disk.open(undo));
    const slot = await step('slot', () => host.slots.acquire(key, livingProcess(process.pid)));
    const idRange = idRangeOfSlot(slot);
    using userNamespace = new UserNamespace(idRange);
    const loopDevice = await step('disk', () => disk.mount(paths, idRange, undo));
    // Awaited only where there are layers.
    using opened =
      template.layers.length > 0 ? await step('layers', () => host.layers.open(digestsOf(template))) : none;
    await step('root', () => this.#mountRoot(plan, opened, disk, { paths, idRange, userNamespace }));
    const container = this.#containerOf(plan, { paths, idRange, userNamespace });
    await step('bundle', () => host.runtime.prepare(container));
    await step('cgroup', () => {
      // Pushed first, so that it runs after the group is destroyed and the container's processes are gone.
      undo.push('container', () => host.runtime.remove(container));
      undo.push('cgroup', () => host.cgroups.destroy(key));
      host.cgroups.create(key);
    });
    const init = await step('create', async () => {
      const first = livingProcess(await this.#createContainer(container, undo));
      host.runtime.applyLimits(container);
      // The slot now belongs to the sandbox's first process, which has its ids and addresses and may outlive this
      // hostd.
      host.slots.transfer(slot, key, first);
      return first;
    });
    await step('network', () => connectNetwork(host, plan, { slot, pid: init.pid }, undo, signal));
    // Before the first process starts others, which inherit its time slice.
    if (plan.sandbox === undefined) host.processor.setPriority(key, 'launching');
    await step('start', () => host.runtime.start(container));
    await step('detach', () => removeMountPoints(paths));
    return step('record', () => {
      if (!isProcessAlive(init)) throw new Error('the first process of the sandbox ended at once');
      const startedAt = new Date().toISOString();
      const { memoryBytes } = plan.resources;
      const running = { source, startedAt, slot, loopDevice, ...disk.recorded, memoryBytes, init };
      host.records.write(key, recordOf(plan, running));
      return running;
    });
  }

  /** Mounts the layers, the template, and what all sandboxes share. */
  #mountRoot(
    { template, network }: LaunchPlan,
    { layers }: OpenLayers,
    disk: LaunchDisk,
    { paths, idRange, userNamespace }: RootOfSandbox,
  ): void {
    const host = this.#host;
    const lowers = mountLayers(foldersOf(template, layers), idRange, paths);
    if (template.rootfsDir !== undefined) {
      mountTemplate(template.rootfsDir, userNamespace, paths.lowerDir);
      lowers.push(paths.lowerDir);
    }
    const files = etcFiles(network === 'none' ? undefined : host.network.gatewayAddress);
    const isTemplateAlone = layers.length === 0 && template.rootfsDir !== undefined;
    disk.fill(paths.diskDir, idRange, files, !isTemplateAlone);
    mountOverlay(paths, lowers);
    mountShared(paths, host.guestDir, network === 'gated' ? host.trust.gatedDir : host.trust.plainDir);
  }

  #containerOf(
    { key, template, resources }: LaunchPlan,
    { paths, idRange, userNamespace }: RootOfSandbox,
  ): ContainerSpec {
    return {
      key,
      bundleDir: this.#host.records.folderOf(key),
      rootDir: paths.rootDir,
      diskDir: paths.diskDir,
      idRange,
      userNamespacePath: userNamespace.path,
      resources,
      command: this.#options.command ?? agentCommand(template),
      environment: { ...threadLimits(resources), ...template.manifest.env },
      agentSettings: agentSettings(template),
    };
  }

  /** Returns a function that runs a step, reports its duration, and throws if the launch was aborted meanwhile. */
  #stepper(signal: AbortSignal, onStep?: OnStep): Stepper {
    return async <T>(name: string, act: () => T | Promise<T>): Promise<T> => {
      signal.throwIfAborted();
      const startedAt = performance.now();
      const result = await act();
      const durationMs = performance.now() - startedAt;
      this.#options.onStep?.(name, durationMs);
      onStep?.(name, durationMs);
      signal.throwIfAborted();
      return result;
    };
  }

  #releaseSlot(key: InstanceKey): void {
    const { slots } = this.#host;
    const slot = slots.find(key);
    if (slot !== undefined) slots.release(slot, key);
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

const none: OpenLayers = { layers: [], [Symbol.dispose]: () => undefined };

function digestsOf({ layers }: LaunchableVersion): string[] {
  return layers.map(({ digest }) => digest);
}

/** Returns the folders that overlay a version's own root, the uppermost first. */
function foldersOf({ layers }: LaunchableVersion, mounted: readonly MountedLayer[]): LayerFolder[] {
  return mounted.map(({ dir, firstId }, index) => ({ path: join(dir, 'upper', layers[index]?.folder ?? ''), firstId }));
}

function agentCommand({ rootfsDir }: LaunchPlan['template']): readonly string[] {
  return rootfsDir === undefined ? AGENT_COMMAND_WITH_LIBRARIES : AGENT_COMMAND;
}

function recordOf({ sandbox, isUnlinked }: LaunchPlan, running: RunningInstance): LiveRecord | PooledRecord {
  if (sandbox) return { status: 'live', ...sandbox, ...running };
  return { status: 'pooled', ...running, ...(isUnlinked && { isUnlinked }) };
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
