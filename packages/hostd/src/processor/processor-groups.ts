import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { CgroupHierarchy } from '../cgroup-hierarchies.ts';
import type { InstanceKey } from '../instances/instance-key.ts';
import { errorCode } from '../kernel/libc.ts';

interface Weights {
  /** The least that the kernel takes: a fortieth (v2) or a five-hundredth (v1) of the usual. */
  readonly least: string;
  /** That of a group which says nothing else. */
  readonly usual: string;
}
const SHARES: Weights = { least: '2', usual: '1024' };
const WEIGHTS: Weights = { least: '1', usual: '100' };

/** The files of cgroups that count processor time and that decide whose turn it is. */
export class ProcessorGroups {
  readonly #usage: (key: InstanceKey) => number;
  readonly #weightFile: (key: InstanceKey) => string;
  readonly #weights: Weights;

  /** @param parent the installation's group, whose children are instances. Throws where no hierarchy has a processor. */
  constructor(parent: string, hierarchies: readonly CgroupHierarchy[]) {
    const placeOf = (controller: string) =>
      hierarchies.find(({ controllers }) => controllers.includes(controller))?.place;
    const fileIn = (place: string, file: string) => (key: InstanceKey) => join(place, parent, key, file);
    const [time, turns] = [placeOf('cpuacct'), placeOf('cpu')];
    const unified = hierarchies.find(({ version }) => version === 2)?.place;
    if (time !== undefined && turns !== undefined) {
      const fileOf = fileIn(time, 'cpuacct.usage');
      this.#usage = (key) => Number(readFileSync(fileOf(key), 'utf8')) / 1000;
      this.#weightFile = fileIn(turns, 'cpu.shares');
      this.#weights = SHARES;
    } else if (unified !== undefined) {
      const fileOf = fileIn(unified, 'cpu.stat');
      this.#usage = (key) => Number(/^usage_usec (\d+)/.exec(readFileSync(fileOf(key), 'utf8'))?.[1]);
      this.#weightFile = fileIn(unified, 'cpu.weight');
      this.#weights = WEIGHTS;
    } else throw new Error('no cgroup hierarchy with the cpu controller');
  }

  /** Microseconds of processor time that an instance has used; undefined when it is gone. */
  usedUs(key: InstanceKey): number | undefined {
    return ifThere(() => this.#usage(key));
  }

  /** Gives the instance its turn after all others. Returns the weight that the instance had; undefined when it is gone. */
  putBehind(key: InstanceKey): string | undefined {
    return ifThere(() => {
      const weight = readFileSync(this.#weightFile(key), 'utf8').trim();
      writeFileSync(this.#weightFile(key), this.#weights.least);
      // An earlier hostd put it there, and took what it had before along.
      return weight === this.#weights.least ? this.#weights.usual : weight;
    });
  }

  /** @param weight what `putBehind` returned. Does nothing when the instance is gone. */
  putBack(key: InstanceKey, weight: string): void {
    ifThere(() => writeFileSync(this.#weightFile(key), weight));
  }
}

function ifThere<T>(act: () => T): T | undefined {
  try {
    return act();
  } catch (error) {
    if (errorCode(error) === 'ENOENT' || errorCode(error) === 'ENODEV') return undefined;
    throw error;
  }
}
