import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type CgroupHierarchy, ownGroupIn } from './cgroup-hierarchies.ts';

/**
 * A process that moves to another control group waits until every processor has been through the scheduler, some 10 ms,
 * unless another one has moved just before. This has hostd "move" to where it is, so that whoever comes next need not wait.
 */
export class CgroupMoves {
  readonly #hierarchy: CgroupHierarchy | undefined;
  #underWay: Promise<void> | undefined;

  constructor([hierarchy]: readonly CgroupHierarchy[]) {
    this.#hierarchy = hierarchy;
  }

  /** Some 20 ms before a move is the best time. Changes nothing. Resolves when it is done, or cannot be. */
  expect(): Promise<void> {
    // Each takes a thread that others may be waiting for.
    this.#underWay ??= this.#move().finally(() => {
      this.#underWay = undefined;
    });
    return this.#underWay;
  }

  async #move(): Promise<void> {
    if (this.#hierarchy === undefined) return;
    try {
      const group = ownGroupIn(this.#hierarchy, await readFile('/proc/self/cgroup', 'utf8'));
      if (group !== undefined) await writeFile(join(group, 'cgroup.procs'), '0');
    } catch {
      // Its own group is not in sight, or not to be written to: then a move takes its time.
    }
  }
}
