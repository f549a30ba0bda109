import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { readSmallFile } from '../base/read-small-file.ts';
import type { CgroupHierarchy } from '../cgroups/cgroup-hierarchies.ts';
import { AGENT_GROUP, KERNELS_GROUP } from '../cgroups/divided-group.ts';
import { GVISOR_GROUP } from '../cgroups/gvisor-group.ts';
import type { InstanceKey } from '../instance/instance-key.ts';
import { errorCode } from '../linux/libc.ts';
import { LONG_SLICE_NS, SHORT_SLICE_NS, setTimeSlice } from '../linux/time-slice.ts';

/** Groups of an instance's threads, below its own group. */
const THREAD_GROUPS = [KERNELS_GROUP, GVISOR_GROUP, AGENT_GROUP, ''];
/**
 * Priority of an instance while processors are contended, from the highest to the lowest. `high`: a sandbox that uses
 * little. `launching`: an instance that is being launched ahead of demand. `low`: a sandbox that used much. `waiting`:
 * an unclaimed instance that still loads Python itself.
 */
export type Priority = 'high' | 'launching' | 'low' | 'waiting';

interface Files {
  /** Reads the microseconds of processor time from a group's folder. */
  readonly used: (folder: string) => number;
  readonly weight: string;
  /**
   * Weight of each priority. A thread that has run for a millisecond waits until the other threads on its processor
   * have used their shares: 0.2 ms next to 25 busy sandboxes with 1/128 of its weight, and 3 ms with 1/8.
   */
  readonly weights: Readonly<Record<Priority, number>>;
  readonly threads: string;
}

/** The cgroup files that count processor time and set priorities. */
export class ProcessorGroups {
  readonly #dir: string;
  readonly #files: Files;
  readonly #usageOf: (key: InstanceKey) => number;

  /**
   * Throws where no hierarchy has the cpu controller.
   * @param parent the installation's group, whose children are instances
   */
  constructor(parent: string, hierarchies: readonly CgroupHierarchy[]) {
    const v1 = (controller: string) =>
      hierarchies.find(({ controllers }) => controllers.includes(controller))?.mountPoint;
    const v2 = hierarchies.find(({ version }) => version === 2)?.mountPoint;
    const mountPoint = v1('cpu') ?? v2;
    if (mountPoint === undefined) throw new Error('the host has no cgroup hierarchy with the cpu controller');
    this.#dir = join(mountPoint, parent);
    this.#files = v1('cpu') === undefined ? V2 : V1;
    const counting = join(v1('cpuacct') ?? mountPoint, parent);
    this.#usageOf = (key) => this.#files.used(join(counting, key));
  }

  /** Returns the microseconds of processor time that an instance has used; undefined when it is gone. */
  usedUs(key: InstanceKey): number | undefined {
    return ifPresent(() => this.#usageOf(key));
  }

  /** Sets the weight of an instance and the time slices of its threads. Idempotent; does nothing when it is gone. */
  setPriority(key: InstanceKey, priority: Priority): void {
    const { weight, weights } = this.#files;
    ifPresent(() => writeFileSync(join(this.#dir, key, weight), String(weights[priority])));
    this.setSlices(key, priority);
  }

  /** Sets only the time slices, including those of threads that were moved to the instance since. */
  setSlices(key: InstanceKey, priority: Priority): void {
    const sliceNs = priority === 'high' ? SHORT_SLICE_NS : LONG_SLICE_NS;
    for (const thread of this.#threads(key)) setTimeSlice(thread, sliceNs);
  }

  /** Returns whether a thread of the instance runs or waits for a processor. */
  hasRunnableThread(key: InstanceKey): boolean {
    for (const thread of this.#threads(key)) if (isRunnable(thread)) return true;
    return false;
  }

  *#threads(key: InstanceKey): Generator<number> {
    for (const group of THREAD_GROUPS) {
      const threads = ifPresent(() => readFileSync(join(this.#dir, key, group, this.#files.threads), 'utf8')) ?? '';
      for (const line of threads.split('\n')) if (line !== '') yield Number(line);
    }
  }
}

const V1: Files = {
  used: (folder) => Number(readSmallFile(join(folder, 'cpuacct.usage'))) / 1000,
  weight: 'cpu.shares',
  weights: { high: 1024, launching: 128, low: 8, waiting: 2 },
  threads: 'tasks',
};
const V2: Files = {
  used: (folder) => Number(/^usage_usec (\d+)/.exec(readSmallFile(join(folder, 'cpu.stat')))?.[1]),
  weight: 'cpu.weight',
  weights: { high: 100, launching: 12, low: 1, waiting: 1 },
  threads: 'cgroup.threads',
};

function isRunnable(thread: number): boolean {
  const stat = ifPresent(() => readFileSync(`/proc/${thread}/stat`, 'utf8')) ?? '';
  return stat.slice(stat.lastIndexOf(')')).startsWith(') R');
}

function ifPresent<T>(act: () => T): T | undefined {
  try {
    return act();
  } catch (error) {
    const gone = ['ENOENT', 'ENODEV', 'ESRCH'];
    if (gone.includes(errorCode(error) ?? '')) return undefined;
    throw error;
  }
}
