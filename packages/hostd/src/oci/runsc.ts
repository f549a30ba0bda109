import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { IdRange } from '../base/id-range.ts';
import type { Cgroups } from '../cgroups/cgroups.ts';
import type { InstanceKey } from '../instance/instance-key.ts';
import type { AgentRelays } from '../relay/agent-relays.ts';
import { makeSharedMemoryFolder } from '../storage/root-file-system.ts';
import { gvisorConfig } from './gvisor-config.ts';
import type { OciCommand } from './oci-command.ts';
import { ociConfig } from './oci-config.ts';
import { resourceLimits } from './resource-limits.ts';
import type { ContainerConsole, ContainerSpec, Runtime } from './runtime.ts';
import { MEMINFO, visibleLimits, writeVisibleLimits } from './visible-limits.ts';

/**
 * How gVisor is run. The guest may connect to the sockets that it is shown and make none; its files are those of the
 * root that it is given, whose disk is bounded, and no layer over it in memory. It filters the guest's calls as other
 * runtimes do, before its own kernel sees them.
 */
export const RUNSC_OPTIONS = [
  '--network=sandbox',
  '--platform=systrap',
  '--host-uds=open',
  '--overlay2=none',
  '--oci-seccomp',
];

export interface RunscDeps {
  command: OciCommand;
  cgroups: Cgroups;
  timeNamespace: boolean;
  relays: AgentRelays;
}

/** gVisor: a sandbox has a kernel of its own, which takes over no listening socket, so its agent dials a relay. */
export class Runsc implements Runtime {
  readonly canBeEntered = false;
  readonly timeNamespace: boolean;
  readonly #deps: RunscDeps;

  constructor(deps: RunscDeps) {
    this.#deps = deps;
    this.timeNamespace = deps.timeNamespace;
  }

  prepare({ key, bundleDir, diskDir, resources, ...container }: ContainerSpec): void {
    const { cgroups, relays, timeNamespace } = this.#deps;
    // Its kernel tells of the memory that it is given; of processors it always shows two.
    const shown = visibleLimits(resources).filter(({ path }) => path !== MEMINFO);
    const config = ociConfig({
      ...container,
      // It joins none. What its guest uses is counted by its own kernel.
      userNamespacePath: undefined,
      resources,
      limits: resourceLimits(),
      timeNamespace,
      seccompProgram: undefined,
      cgroupsPath: cgroups.pathOf(key),
      kernelsGroupCount: 0,
      overlaid: writeVisibleLimits(diskDir, shown),
      sysFolders: [],
    });
    const places = { dialDir: relays.folderOf(key), sharedMemoryDir: makeSharedMemoryFolder(diskDir) };
    writeFileSync(join(bundleDir, 'config.json'), JSON.stringify(gvisorConfig(config, resources, places)));
  }

  async create({ key, bundleDir, idRange }: ContainerSpec, console: ContainerConsole): Promise<number> {
    this.#deps.relays.open(key, idRange);
    return this.#deps.command.create(key, bundleDir, { console });
  }

  /** Widens the bound of memory for gVisor itself: inside of a container nothing is divided. */
  bound({ key, resources }: ContainerSpec): void {
    this.#deps.cgroups.makeRoomForGvisor(key, resources);
  }

  start({ key, bundleDir }: ContainerSpec): Promise<void> {
    return this.#deps.command.start(key, bundleDir);
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
}
