import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { readSmallFile } from '../base/read-small-file.ts';
import { errorCode } from '../linux/libc.ts';
import type { CgroupHierarchy } from './cgroup-hierarchies.ts';

/** The control group below an instance's group to which the sandbox's limits apply, and how to read its counters. */
export interface LimitedGroup {
  readonly name: string;
  /**
   * Kind of memory that counts as used. `unreclaimable`: everything but cached files, which the kernel drops when
   * memory is short. `shared`: shared memory, in which gVisor keeps the memory of its guest.
   */
  readonly memory: 'unreclaimable' | 'shared';
  /** Whether the group's process counter counts the processes of the sandbox. With gVisor it counts gVisor's own. */
  readonly countsProcesses: boolean;
}

/** The group of a whole instance, which contains the groups of its agent and of its kernels. */
export const WHOLE_GROUP: LimitedGroup = { name: '', memory: 'unreclaimable', countsProcesses: false };

/** Memory that a group holds: in memory, without file caches, and in swap. */
export interface HeldMemory {
  readonly residentBytes: number;
  readonly swappedBytes: number;
}

/** Resources that a group occupies now. */
export interface Occupied {
  memoryBytes: number;
  /** Processes and threads. Absent where the group does not count those of the sandbox. */
  processes?: number;
}

interface Files {
  readonly usage: string;
  /** Prefix of the names in `memory.stat` whose values include all groups below. */
  readonly prefix: string;
  /** Only in version 2; in version 1, `memory.stat` has it, where the kernel accounts for swap. */
  readonly swap?: string;
  readonly memoryDir: string;
  readonly pidsDir: string;
}

/** Reads the memory and the processes of instances from the control groups of an installation. */
export class GroupUsage {
  readonly #files: Files;
  readonly #group: LimitedGroup;

  /** @param parent the installation's group, whose children are instances */
  constructor(parent: string, hierarchies: readonly CgroupHierarchy[], group: LimitedGroup) {
    const v1 = (controller: string) =>
      hierarchies.find(({ controllers }) => controllers.includes(controller))?.mountPoint;
    const v2 = hierarchies.find(({ version }) => version === 2)?.mountPoint ?? '';
    const version1 = v1('memory') !== undefined;
    this.#group = group;
    this.#files = {
      usage: version1 ? 'memory.usage_in_bytes' : 'memory.current',
      prefix: version1 ? 'total_' : '',
      ...(!version1 && { swap: 'memory.swap.current' }),
      memoryDir: join(v1('memory') ?? v2, parent),
      pidsDir: join(v1('pids') ?? v2, parent),
    };
  }

  /** Returns undefined when the instance's group is gone. */
  read(key: string): Occupied | undefined {
    const { memoryDir, pidsDir } = this.#files;
    const { name, countsProcesses } = this.#group;
    return ifPresent(() => {
      const memoryBytes = this.#memoryBytes(join(memoryDir, key, name));
      if (!countsProcesses) return { memoryBytes };
      return { memoryBytes, processes: Number(readSmallFile(join(pidsDir, key, name, 'pids.current'))) };
    });
  }

  /** Returns undefined when the instance's group is gone. */
  held(key: string): HeldMemory | undefined {
    const folder = join(this.#files.memoryDir, key, this.#group.name);
    return ifPresent(() => {
      const of = this.#counters(folder);
      return { residentBytes: this.#memoryBytes(folder, of), swappedBytes: this.#swappedBytes(folder, of) };
    });
  }

  /** Returns the ids of the processes in the group. */
  processIds(key: string): number[] {
    const text = readSmallFile(join(this.#files.memoryDir, key, this.#group.name, 'cgroup.procs'));
    return text.split('\n').flatMap((line) => (line === '' ? [] : [Number(line)]));
  }

  #memoryBytes(folder: string, of = this.#counters(folder)): number {
    const { usage } = this.#files;
    if (this.#group.memory === 'shared') return of('shmem');
    return Math.max(0, Number(readSmallFile(join(folder, usage))) - of('active_file') - of('inactive_file'));
  }

  #swappedBytes(folder: string, of: (name: string) => number): number {
    const { swap } = this.#files;
    if (swap === undefined) return of('swap');
    return existsSync(join(folder, swap)) ? Number(readSmallFile(join(folder, swap))) : 0;
  }

  #counters(folder: string): (name: string) => number {
    const stat = readSmallFile(join(folder, 'memory.stat'));
    return (name) => Number(new RegExp(`^${this.#files.prefix}${name} (\\d+)$`, 'm').exec(stat)?.[1] ?? 0);
  }
}

function ifPresent<T>(read: () => T): T | undefined {
  try {
    return read();
  } catch (error) {
    if (['ENOENT', 'ENODEV'].includes(errorCode(error) ?? '')) return undefined;
    throw error;
  }
}
