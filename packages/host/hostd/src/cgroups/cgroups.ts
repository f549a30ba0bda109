import { closeSync, existsSync, mkdirSync, openSync, readdirSync, readFileSync, rmdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import type { LaunchSpec } from '@cloche/protocol';
import { until } from '../base/until.ts';
import { errorCode } from '../linux/libc.ts';
import { detachMount } from '../linux/mounts.ts';
import { killProcessIf } from '../linux/process-identity.ts';
import { type CgroupHierarchy, findHierarchies, UNIFIED } from './cgroup-hierarchies.ts';
import { AGENT_GROUP, divide, dividedHierarchies, KERNELS_GROUP, RESERVE_GROUP } from './divided-group.ts';
import { Freezer } from './freezer.ts';
import { widenGvisorMemoryLimit } from './gvisor-group.ts';
import { SwapGroups } from './swap-groups.ts';

/**
 * The control groups of one installation: `cloche-<installationId>/<instance key>` in every hierarchy of the host. A v2
 * host has one hierarchy, a v1 host has one for each controller. Where processor, memory and processes are counted, an
 * instance's group is divided: `agent`, `kernels` for every process that a client has started, and `reserve` for one
 * command of the sandbox's owner while `kernels` is full.
 */
export class Cgroups {
  readonly #all: readonly CgroupHierarchy[];
  /** Mount points of all hierarchies. */
  readonly #hierarchies: readonly string[];
  readonly #divided: readonly CgroupHierarchy[];
  /** Parent group of all instances, relative to each hierarchy's mount point. */
  readonly parent: string;
  readonly freezer: Freezer;
  readonly swap: SwapGroups;

  constructor(installationId: string, hierarchies: readonly CgroupHierarchy[] = findHierarchies()) {
    this.#all = hierarchies;
    this.#hierarchies = hierarchies.map(({ mountPoint }) => mountPoint);
    this.#divided = dividedHierarchies(hierarchies);
    this.parent = `cloche-${installationId}`;
    this.freezer = new Freezer(hierarchies, this.parent);
    this.swap = new SwapGroups(hierarchies, this.parent);
  }

  /** Returns the group's path in the form that the OCI runtime takes. */
  pathOf(key: string): string {
    return `/${this.parent}/${key}`;
  }

  /**
   * Creates an instance's group in every hierarchy. Parent and child in one synchronous call, so that no `destroy`
   * removes the empty parent in between.
   */
  create(key: string): void {
    this.swap.createParent();
    for (const hierarchy of this.#hierarchies) mkdirSync(join(hierarchy, this.parent, key), { recursive: true });
  }

  /** Number of hierarchies in which a process has to be moved to join a part of an instance's group. */
  get dividedCount(): number {
    return this.#divided.length;
  }

  /** Returns the folders of a part. A process is in it when its id is written to `cgroup.procs` of each. */
  #pathsOf(key: string, part: string): string[] {
    return this.#divided.map(({ mountPoint }) => join(mountPoint, this.parent, key, part));
  }

  /**
   * Creates the parts of the group. Returns one descriptor for each hierarchy that moves processes into the kernels'
   * group, then those for the reserve. The caller closes them.
   *
   * SECURITY: a process that writes a number there can move only processes of its own pid namespace, and only into that
   * group (surroundings.test.ts), so a sandbox may have the descriptors. Only the agent and its init have those of the
   * reserve.
   */
  createDividedGroups(key: string): number[] {
    for (const { mountPoint } of this.#divided) {
      mkdirSync(join(mountPoint, this.parent, key, AGENT_GROUP), { recursive: true });
    }
    return [KERNELS_GROUP, RESERVE_GROUP].flatMap((part) =>
      this.#pathsOf(key, part).map((folder) => {
        mkdirSync(folder, { recursive: true });
        return openSync(join(folder, 'cgroup.procs'), 'w');
      }),
    );
  }

  /**
   * Opens descriptors, one for each hierarchy, that move a process which writes `0` to them into the instance's
   * kernels' group. The caller closes them. Throws when the instance is gone.
   */
  openForFork(key: string): number[] {
    const opened: number[] = [];
    try {
      for (const { mountPoint, version } of this.#all) {
        const isDivided = this.#divided.some((divided) => divided.mountPoint === mountPoint);
        const folder = join(mountPoint, this.parent, key, ...(isDivided ? [KERNELS_GROUP] : []));
        // Moving a single thread avoids the grace period that moving a process waits for. The thread that writes cannot
        // exit meanwhile.
        opened.push(openSync(join(folder, version === 1 ? 'tasks' : 'cgroup.procs'), 'w'));
      }
      return opened;
    } catch (error) {
      for (const fd of opened) closeSync(fd);
      throw error;
    }
  }

  /**
   * Moves the processes in the group so far, which is the init, to the agent's group, and limits the others.
   */
  divide(key: string, resources: LaunchSpec['resources']): void {
    for (const hierarchy of this.#divided) divide(hierarchy, join(hierarchy.mountPoint, this.parent, key), resources);
  }

  /** Widens the memory limit of a gVisor container, whose group is not divided. Call before its processes start. */
  widenGvisorMemoryLimit(key: string, resources: LaunchSpec['resources']): void {
    for (const hierarchy of this.#divided) widenGvisorMemoryLimit(hierarchy, join(this.parent, key), resources);
  }

  /** Returns the ids of the processes in the group at this moment. */
  processesOf(key: string): Set<number> {
    return this.#processesInOneHierarchy(key);
  }

  /** Kills the given processes if they are still in the group. */
  killProcesses(key: string, pids: ReadonlySet<number>): void {
    this.#kill(key, pids);
  }

  /** Kills the processes in the group at this moment, frozen ones too. */
  kill(key: string): void {
    this.#kill(key, this.#processesInOneHierarchy(key));
    this.#letKilledEnd(key);
  }

  /** Call after a kill. A thawed process ends before it executes anything else. */
  #letKilledEnd(key: string): void {
    if (this.freezer.delaysKills) this.freezer.thaw(key);
  }

  /**
   * Kills the group's processes until none is left, then removes the group, and the installation's group if this was
   * its last. Idempotent. Rejects when a process cannot be killed in time.
   */
  async destroy(key: string): Promise<void> {
    await until(`cgroup ${key} is gone`, () => {
      const counted = this.#processesInOneHierarchy(key);
      // Processes that are in some hierarchies but not in all exist only after an interrupted launch.
      this.#kill(key, counted.size > 0 ? counted : this.#processesInAnyHierarchy(key));
      this.#letKilledEnd(key);
      return this.#tryRemove(key);
    });
  }

  /** A process id may have been reused since it was read, so the group is checked again before the kill. */
  #kill(key: string, pids: ReadonlySet<number>): void {
    const group = this.pathOf(key);
    for (const pid of pids) killProcessIf(pid, () => isInGroup(pid, group));
  }

  /** Returns the group's processes from one hierarchy that every process of an instance is in. */
  #processesInOneHierarchy(key: string): Set<number> {
    const [counting = this.#hierarchies[0]] = this.#divided.map(({ mountPoint }) => mountPoint);
    const pids = new Set<number>();
    if (counting !== undefined) collectProcesses(join(counting, this.parent, key), pids);
    return pids;
  }

  #processesInAnyHierarchy(key: string): Set<number> {
    const pids = new Set<number>();
    for (const hierarchy of this.#hierarchies) collectProcesses(join(hierarchy, this.parent, key), pids);
    return pids;
  }

  /** Returns false while the group is in use: a killed process is still exiting. */
  #tryRemove(key: string): boolean {
    try {
      this.#removeHiddenFolder(key);
      for (const hierarchy of this.#hierarchies) {
        removeTree(join(hierarchy, this.parent, key));
        removeIfEmpty(join(hierarchy, this.parent));
      }
      return true;
    } catch (error) {
      if (errorCode(error) === 'EBUSY') return false;
      throw error;
    }
  }

  /**
   * Where the v2 hierarchy is hidden, its mount point is an ordinary folder, and crun creates folders of the same names
   * there.
   */
  #removeHiddenFolder(key: string): void {
    if (this.#hierarchies.includes(UNIFIED)) return;
    rmSync(join(UNIFIED, this.parent, key), { recursive: true, force: true });
    removeIfEmpty(join(UNIFIED, this.parent));
  }

  /** Returns the key of every instance that has a group. */
  keys(): Set<string> {
    return new Set(this.#hierarchies.flatMap((hierarchy) => childGroups(join(hierarchy, this.parent))));
  }
}

/**
 * Hides the v2 hierarchy of a hybrid host from this process. It may hold a few controllers, and crun then refuses to
 * run. Outside hostd's mount namespace the hierarchy stays; inside, the host looks like a v1 host.
 */
export function hideHybridHierarchy(): void {
  if (existsSync(join(UNIFIED, 'cgroup.controllers'))) detachMount(UNIFIED);
}

/** Returns whether a process is in the group, or in one below it, in any hierarchy. */
function isInGroup(pid: number, group: string): boolean {
  try {
    const lines = readFileSync(`/proc/${pid}/cgroup`, 'utf8').split('\n');
    return lines.some((line) => `${line.split(':').slice(2).join(':')}/`.startsWith(`${group}/`));
  } catch (error) {
    if (errorCode(error) === 'ENOENT' || errorCode(error) === 'ESRCH') return false;
    throw error;
  }
}

function childGroups(dir: string): string[] {
  try {
    return readdirSync(dir, { withFileTypes: true })
      .filter((entry) => entry.isDirectory())
      .map((entry) => entry.name);
  } catch (error) {
    if (errorCode(error) === 'ENOENT') return [];
    throw error;
  }
}

function collectProcesses(dir: string, pids: Set<number>): void {
  try {
    for (const line of readFileSync(join(dir, 'cgroup.procs'), 'utf8').split('\n')) {
      if (line !== '') pids.add(Number(line));
    }
  } catch (error) {
    if (errorCode(error) !== 'ENOENT' && errorCode(error) !== 'ENODEV') throw error;
  }
  for (const child of childGroups(dir)) collectProcesses(join(dir, child), pids);
}

function removeTree(dir: string): void {
  for (const child of childGroups(dir)) removeTree(join(dir, child));
  try {
    rmdirSync(dir);
  } catch (error) {
    if (errorCode(error) !== 'ENOENT') throw error;
  }
}

function removeIfEmpty(dir: string): void {
  try {
    rmdirSync(dir);
  } catch (error) {
    const code = errorCode(error);
    if (code !== 'ENOENT' && code !== 'EBUSY' && code !== 'ENOTEMPTY') throw error;
  }
}
