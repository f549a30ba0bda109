import { closeSync, existsSync, mkdirSync, openSync, readdirSync, readFileSync, rmdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import type { LaunchSpec } from '@cloche/protocol';
import { until } from '../base/until.ts';
import { errorCode } from '../kernel/libc.ts';
import { detachMount } from '../kernel/mounts.ts';
import { killIf } from '../kernel/process-identity.ts';
import { type CgroupHierarchy, findHierarchies, UNIFIED } from './cgroup-hierarchies.ts';
import { AGENT_GROUP, divide, dividedHierarchies, KERNELS_GROUP } from './divided-group.ts';
import { makeRoomForGvisor } from './gvisor-group.ts';

/**
 * The control groups of one installation: `cloche-<installationId>/<instance key>` in every hierarchy of the host,
 * which is one on a v2 host and one for each controller on v1. An instance's group is divided in two where processor,
 * memory and processes are counted: `agent`, and `kernels` for whatever a client has started.
 */
export class Cgroups {
  readonly #all: readonly CgroupHierarchy[];
  /** Folders of every hierarchy. */
  readonly #hierarchies: readonly string[];
  readonly #divided: readonly CgroupHierarchy[];
  /** Where instances have their groups, in each hierarchy. */
  readonly parent: string;

  constructor(installationId: string, hierarchies: readonly CgroupHierarchy[] = findHierarchies()) {
    this.#all = hierarchies;
    this.#hierarchies = hierarchies.map(({ place }) => place);
    this.#divided = dividedHierarchies(hierarchies);
    this.parent = `cloche-${installationId}`;
  }

  /** As the OCI runtime takes it. */
  pathOf(key: string): string {
    return `/${this.parent}/${key}`;
  }

  /** Makes an instance's group everywhere. In one go, so that nobody finds the parent empty and takes it away. */
  create(key: string): void {
    for (const hierarchy of this.#hierarchies) mkdirSync(join(hierarchy, this.parent, key), { recursive: true });
  }

  /** In how many hierarchies a process has to be moved to be among an instance's kernels. */
  get dividedCount(): number {
    return this.#divided.length;
  }

  /** The folders of the instance's kernels' group: a process is in it when its id was written to `cgroup.procs` of each. */
  kernelsPathsOf(key: string): string[] {
    return this.#divided.map(({ place }) => join(place, this.parent, key, KERNELS_GROUP));
  }

  /**
   * Makes the groups of agent and kernels, and returns a descriptor for each hierarchy that moves processes into that of
   * the kernels. The caller closes them.
   *
   * SECURITY: whoever writes a number there moves a process of their own pid namespace, and only into that group
   * (surroundings.test.ts); so a sandbox may have them.
   */
  openKernels(key: string): number[] {
    for (const { place } of this.#divided) {
      mkdirSync(join(place, this.parent, key, AGENT_GROUP), { recursive: true });
    }
    return this.kernelsPathsOf(key).map((folder) => {
      mkdirSync(folder, { recursive: true });
      return openSync(join(folder, 'cgroup.procs'), 'w');
    });
  }

  /**
   * Descriptors that move whoever writes `0` to each of them to where a kernel of the instance belongs, in every
   * hierarchy. The caller closes them. Throws when the instance is gone.
   */
  openEntrances(key: string): number[] {
    const opened: number[] = [];
    try {
      for (const { place, version } of this.#all) {
        const isDivided = this.#divided.some((divided) => divided.place === place);
        const folder = join(place, this.parent, key, ...(isDivided ? [KERNELS_GROUP] : []));
        // A thread alone, which its own writing cannot lose, moves without the grace period that a process waits for.
        opened.push(openSync(join(folder, version === 1 ? 'tasks' : 'cgroup.procs'), 'w'));
      }
      return opened;
    } catch (error) {
      for (const fd of opened) closeSync(fd);
      throw error;
    }
  }

  /** Moves what is in the group so far, which is the init, to the agent's, and bounds that of the kernels. */
  divide(key: string, resources: LaunchSpec['resources']): void {
    for (const hierarchy of this.#divided) divide(hierarchy, join(hierarchy.place, this.parent, key), resources);
  }

  /** The same for a runtime that is not divided. Before what runs in it starts. */
  makeRoomForGvisor(key: string, resources: LaunchSpec['resources']): void {
    for (const hierarchy of this.#divided) makeRoomForGvisor(hierarchy, join(this.parent, key), resources);
  }

  /** Returns the ids of the processes that are in the group now. */
  processesOf(key: string): Set<number> {
    return this.#counted(key);
  }

  /** Kills those of them that are still in the group. */
  killProcesses(key: string, pids: ReadonlySet<number>): void {
    this.#kill(key, pids);
  }

  /** Kills what is in the group at this moment. */
  kill(key: string): void {
    this.#kill(key, this.#counted(key));
  }

  /**
   * Kills what is in the group until nothing is, then removes it, and the installation's when this was its last.
   * Idempotent. Rejects when something cannot be killed in time.
   */
  async destroy(key: string): Promise<void> {
    await until(`cgroup ${key} is gone`, () => {
      const counted = this.#counted(key);
      // Only a launch that was cut off leaves processes that are in some hierarchies and not in all.
      this.#kill(key, counted.size > 0 ? counted : this.#processes(key));
      return this.#tryRemove(key);
    });
  }

  /** A number that was read may belong to another process by now, so each is looked up again before it is killed. */
  #kill(key: string, pids: ReadonlySet<number>): void {
    const group = this.pathOf(key);
    for (const pid of pids) killIf(pid, () => isInGroup(pid, group));
  }

  /** By one hierarchy that every process of an instance is in. */
  #counted(key: string): Set<number> {
    const [counting = this.#hierarchies[0]] = this.#divided.map(({ place }) => place);
    const pids = new Set<number>();
    if (counting !== undefined) collectProcesses(join(counting, this.parent, key), pids);
    return pids;
  }

  #processes(key: string): Set<number> {
    const pids = new Set<number>();
    for (const hierarchy of this.#hierarchies) collectProcesses(join(hierarchy, this.parent, key), pids);
    return pids;
  }

  /** False while the group is in use: a process that was killed is still ending. */
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

  /** Where the v2 hierarchy is hidden, its place is an ordinary folder, and crun makes folders of the same names there. */
  #removeHiddenFolder(key: string): void {
    if (this.#hierarchies.includes(UNIFIED)) return;
    rmSync(join(UNIFIED, this.parent, key), { recursive: true, force: true });
    removeIfEmpty(join(UNIFIED, this.parent));
  }

  /** Every instance key that has a group. */
  keys(): Set<string> {
    return new Set(this.#hierarchies.flatMap((hierarchy) => childGroups(join(hierarchy, this.parent))));
  }
}

/**
 * On a hybrid host the v2 hierarchy may hold a controller or two, and crun then refuses to run. Out of hostd's own
 * mount namespace the host still has it; in here the host looks like a v1 host.
 */
export function hideHybridHierarchy(): void {
  if (existsSync(join(UNIFIED, 'cgroup.controllers'))) detachMount(UNIFIED);
}

/** Whether a process is in the group, or in one below it, in any hierarchy. */
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
