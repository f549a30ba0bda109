import { closeSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { IsolationClaims } from '@cloche/protocol';
import type { Cgroups } from '../cgroups/cgroups.ts';
import { KERNELS_GROUP } from '../cgroups/divided-group.ts';
import { openListeningSocket } from '../linux/listening-socket.ts';
import { writeSysFolders } from './kernel-view.ts';
import type { OciCommand } from './oci-command.ts';
import { ociConfig } from './oci-config.ts';
import type { ResourceLimit } from './resource-limits.ts';
import type { ContainerConsole, ContainerSpec, Runtime } from './runtime.ts';
import { BOOT_ID, ownBootId, visibleLimits, writeVisibleLimits } from './visible-limits.ts';

export interface HostKernelRuntimeDeps {
  command: OciCommand;
  cgroups: Cgroups;
  timeNamespace: boolean;
  claims: IsolationClaims;
  /** Folder with one folder for each instance, which holds its agent's socket. */
  socketsDir: string;
  /** The owner of the sockets. */
  service: { uid: number; gid: number };
  /** Resource limits that the runtime sets on the first process. */
  limits: readonly ResourceLimit[];
  /** The seccomp profile as a compiled program in base64, for a runtime that accepts one. */
  seccompProgram?: string | undefined;
  /**
   * Whether the runtime mounts a file over any file of `/proc`. runc allows only a list of files, so the host's id of the
   * boot is hidden there, and reads as empty.
   */
  coversProc?: boolean;
}

/**
 * A runtime whose sandboxes share the host's kernel, such as crun and runc: the agent inherits a listening socket, and
 * the host's cgroups separate the agent from the kernels.
 */
export class HostKernelRuntime implements Runtime {
  readonly claims: IsolationClaims;
  /** Measured: about 16 MB in the control group. */
  readonly waitingInstanceBytes = 24 * 1024 * 1024;
  readonly limitedGroup = { name: KERNELS_GROUP, memory: 'unreclaimable', countsProcesses: true } as const;
  readonly timeNamespace: boolean;
  readonly #deps: HostKernelRuntimeDeps;

  constructor(deps: HostKernelRuntimeDeps) {
    this.#deps = deps;
    this.claims = deps.claims;
    this.timeNamespace = deps.timeNamespace;
  }

  prepare({ key, bundleDir, diskDir, resources, ...container }: ContainerSpec): void {
    const { cgroups, timeNamespace, limits, seccompProgram, coversProc = false } = this.#deps;
    const shown = coversProc ? [...visibleLimits(resources), ownBootId()] : visibleLimits(resources);
    const config = ociConfig({
      ...container,
      resources,
      limits,
      timeNamespace,
      seccompProgram,
      cgroupsPath: cgroups.pathOf(key),
      kernelsGroupCount: cgroups.dividedCount,
      overlaid: writeVisibleLimits(diskDir, shown),
      hidden: coversProc ? [] : [BOOT_ID],
      sysFolders: writeSysFolders(diskDir),
    });
    writeFileSync(join(bundleDir, 'config.json'), JSON.stringify(config));
  }

  async create({ key, bundleDir }: ContainerSpec, console: ContainerConsole): Promise<number> {
    const { command, cgroups, socketsDir, service } = this.#deps;
    const forAgent: number[] = [];
    try {
      forAgent.push(openListeningSocket(join(socketsDir, key, 'agent.sock'), service));
      forAgent.push(...cgroups.createDividedGroups(key));
      return await command.create(key, bundleDir, { console, forAgent });
    } finally {
      for (const fd of forAgent) closeSync(fd);
    }
  }

  applyLimits({ key, resources }: ContainerSpec): void {
    this.#deps.cgroups.divide(key, resources);
  }

  start({ key, bundleDir }: ContainerSpec): Promise<void> {
    return this.#deps.command.start(key, bundleDir);
  }

  /** Does nothing: the host's kernel has all that a sandbox has written. */
  async writeBack(): Promise<void> {}

  /** Does nothing: the agent holds its listening socket itself. */
  takeOver(): void {}

  remove({ key, bundleDir }: Pick<ContainerSpec, 'key' | 'bundleDir'>): Promise<void> {
    return this.#deps.command.delete(key, bundleDir);
  }

  close(): void {}
}
