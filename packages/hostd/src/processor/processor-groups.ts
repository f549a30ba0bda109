import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { CgroupHierarchy } from '../cgroup-hierarchies.ts';
import { AGENT_GROUP, KERNELS_GROUP } from '../divided-group.ts';
import { GVISOR_GROUP } from '../gvisor-group.ts';
import type { InstanceKey } from '../instances/instance-key.ts';
import { errorCode } from '../kernel/libc.ts';
import { LONG_SLICE_NS, SHORT_SLICE_NS, setTimeSlice } from '../kernel/time-slice.ts';

/** Where the threads of an instance are, below its group. */
const GROUPS_OF_THREADS = [KERNELS_GROUP, GVISOR_GROUP, AGENT_GROUP, ''];
/**
 * Of an instance's weight, what it has behind the others. Less would be worse for them: the kernel lets each group run for
 * a slice that it is owed, and a group of little weight is owed it for long.
 */
const BEHIND = 1 / 8;

interface Files {
  /** Microseconds of processor time, as its content says. */
  readonly used: (folder: string) => number;
  readonly weight: string;
  readonly threads: string;
}

/** The files of cgroups that count processor time and that decide whose turn it is. */
export class ProcessorGroups {
  readonly #place: string;
  readonly #files: Files;
  readonly #usageOf: (key: InstanceKey) => number;

  /** @param parent the installation's group, whose children are instances. Throws where no hierarchy has a processor. */
  constructor(parent: string, hierarchies: readonly CgroupHierarchy[]) {
    const v1 = (controller: string) => hierarchies.find(({ controllers }) => controllers.includes(controller))?.place;
    const v2 = hierarchies.find(({ version }) => version === 2)?.place;
    const place = v1('cpu') ?? v2;
    if (place === undefined) throw new Error('no cgroup hierarchy with the cpu controller');
    this.#place = join(place, parent);
    this.#files = v1('cpu') === undefined ? V2 : V1;
    const counting = join(v1('cpuacct') ?? place, parent);
    this.#usageOf = (key) => this.#files.used(join(counting, key));
  }

  /** Microseconds of processor time that an instance has used; undefined when it is gone. */
  usedUs(key: InstanceKey): number | undefined {
    return ifThere(() => this.#usageOf(key));
  }

  /** Gives the instance its turn after the others. Returns the weight that it had; undefined when it is gone. */
  putBehind(key: InstanceKey): number | undefined {
    this.lengthenSlices(key);
    return ifThere(() => {
      const file = join(this.#place, key, this.#files.weight);
      const weight = Number(readFileSync(file, 'utf8'));
      writeFileSync(file, String(Math.max(2, Math.round(weight * BEHIND))));
      return weight;
    });
  }

  /**
   * Gives the instance's threads long time slices, including threads that were started since. Threads of other
   * instances have short slices and run before them.
   */
  lengthenSlices(key: InstanceKey): void {
    this.#setSlices(key, LONG_SLICE_NS);
  }

  /** @param weight what `putBehind` returned. Does nothing when the instance is gone. */
  putBack(key: InstanceKey, weight: number): void {
    this.#setSlices(key, SHORT_SLICE_NS);
    ifThere(() => writeFileSync(join(this.#place, key, this.#files.weight), String(weight)));
  }

  /** Whether a thread of the instance runs, or waits for a processor. */
  wants(key: InstanceKey): boolean {
    for (const thread of this.#threads(key)) if (isRunnable(thread)) return true;
    return false;
  }

  #setSlices(key: InstanceKey, sliceNs: bigint): void {
    for (const thread of this.#threads(key)) setTimeSlice(thread, sliceNs);
  }

  *#threads(key: InstanceKey): Generator<number> {
    for (const group of GROUPS_OF_THREADS) {
      const threads = ifThere(() => readFileSync(join(this.#place, key, group, this.#files.threads), 'utf8')) ?? '';
      for (const line of threads.split('\n')) if (line !== '') yield Number(line);
    }
  }
}

const V1: Files = {
  used: (folder) => Number(readFileSync(join(folder, 'cpuacct.usage'), 'utf8')) / 1000,
  weight: 'cpu.shares',
  threads: 'tasks',
};
const V2: Files = {
  used: (folder) => Number(/^usage_usec (\d+)/.exec(readFileSync(join(folder, 'cpu.stat'), 'utf8'))?.[1]),
  weight: 'cpu.weight',
  threads: 'cgroup.threads',
};

function isRunnable(thread: number): boolean {
  const stat = ifThere(() => readFileSync(`/proc/${thread}/stat`, 'utf8')) ?? '';
  return stat.slice(stat.lastIndexOf(')')).startsWith(') R');
}

function ifThere<T>(act: () => T): T | undefined {
  try {
    return act();
  } catch (error) {
    const gone = ['ENOENT', 'ENODEV', 'ESRCH'];
    if (gone.includes(errorCode(error) ?? '')) return undefined;
    throw error;
  }
}
