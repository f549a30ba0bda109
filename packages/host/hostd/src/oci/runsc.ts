import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { IsolationClaims } from '@cloche/protocol';
import type { IdRange } from '../base/id-range.ts';
import { until } from '../base/until.ts';
import type { Cgroups } from '../cgroups/cgroups.ts';
import { GVISOR_GROUP } from '../cgroups/gvisor-group.ts';
import type { InstanceKey } from '../instance/instance-key.ts';
import { isProcessAlive, type ProcessIdentity } from '../linux/process-identity.ts';
import type { AgentRelays } from '../relay/agent-relays.ts';
import { makeSharedMemoryFolder } from '../storage/root-file-system.ts';
import { gvisorConfig } from './gvisor-config.ts';
import type { OciCommand } from './oci-command.ts';
import { ociConfig } from './oci-config.ts';
import { resourceLimits } from './resource-limits.ts';
import type { ContainerConsole, ContainerSpec, Runtime } from './runtime.ts';
import { MEMINFO, visibleLimits, writeVisibleLimits } from './visible-limits.ts';

/**
 * Options of gVisor. The guest may connect to the sockets that it is shown and create none. Its files are on the root's
 * disk, which is limited, without an in-memory layer. The seccomp profile filters the guest's calls before gVisor's
 * kernel sees them.
 */
export const RUNSC_OPTIONS = [
  '--network=sandbox',
  '--platform=systrap',
  '--host-uds=open',
  '--overlay2=none',
  '--oci-seccomp',
];

/** File in gVisor's folder on which it mounts an empty network namespace, in which processes of all sandboxes run. */
export const SHARED_NAMESPACE = 'null-netns';

export interface RunscDeps {
  command: OciCommand;
  cgroups: Cgroups;
  timeNamespace: boolean;
  claims: IsolationClaims;
  relays: AgentRelays;
}

/** gVisor: a sandbox has its own kernel, which cannot inherit a listening socket, so its agent dials a relay. */
export class Runsc implements Runtime {
  readonly claims: IsolationClaims;
  /** Measured: about 140 MB in the control group, most of it gVisor's kernel. */
  readonly waitingInstanceBytes = 160 * 1024 * 1024;
  /** The processes of the group are gVisor's own, which run those of the guest. */
  readonly limitedGroup = { name: GVISOR_GROUP, memory: 'shared', countsProcesses: false } as const;
  readonly timeNamespace: boolean;
  readonly #deps: RunscDeps;

  constructor(deps: RunscDeps) {
    this.#deps = deps;
    this.claims = deps.claims;
    this.timeNamespace = deps.timeNamespace;
  }

  prepare({ key, bundleDir, diskDir, resources, ...container }: ContainerSpec): void {
    const { cgroups, relays, timeNamespace } = this.#deps;
    // gVisor reports the memory limit itself, and an id of the boot that differs in each sandbox; of processors it always
    // shows two.
    const shown = visibleLimits(resources).filter(({ path }) => path !== MEMINFO);
    const config = ociConfig({
      ...container,
      // gVisor joins no user namespace; its own kernel counts what the guest uses.
      userNamespacePath: undefined,
      resources,
      limits: resourceLimits(),
      timeNamespace,
      seccompProgram: undefined,
      cgroupsPath: cgroups.pathOf(key),
      kernelsGroupCount: 0,
      overlaid: writeVisibleLimits(diskDir, shown),
      hidden: [],
      sysFolders: [],
    });
    const paths = { dialDir: relays.folderOf(key), sharedMemoryDir: makeSharedMemoryFolder(diskDir) };
    writeFileSync(join(bundleDir, 'config.json'), JSON.stringify(gvisorConfig(config, resources, paths)));
  }

  async create({ key, bundleDir, idRange }: ContainerSpec, console: ContainerConsole): Promise<number> {
    this.#deps.relays.open(key, idRange);
    return this.#deps.command.create(key, bundleDir, { console });
  }

  /** Widens the memory limit for gVisor itself; a gVisor container's group is not divided. */
  applyLimits({ key, resources }: ContainerSpec): void {
    this.#deps.cgroups.widenGvisorMemoryLimit(key, resources);
  }

  start({ key, bundleDir }: ContainerSpec): Promise<void> {
    return this.#deps.command.start(key, bundleDir);
  }

  /** Ends the guest's processes. gVisor's kernel then writes what it has cached of their files, and ends too. */
  async writeBack({ key, bundleDir }: Pick<ContainerSpec, 'key' | 'bundleDir'>, init: ProcessIdentity): Promise<void> {
    await this.#deps.command.killFirst(key, bundleDir);
    await until(`gVisor has ended ${key}`, () => !isProcessAlive(init));
  }

  takeOver(key: InstanceKey, idRange: IdRange): void {
    this.#deps.relays.open(key, idRange);
  }

  async remove({ key, bundleDir }: Pick<ContainerSpec, 'key' | 'bundleDir'>): Promise<void> {
    await this.#deps.command.delete(key, bundleDir);
    this.#deps.relays.remove(key);
  }

  close(): void {
    this.#deps.relays.closeAll();
  }

  removeShared(): void {
    this.#deps.command.removeSharedMount(SHARED_NAMESPACE);
  }
}
