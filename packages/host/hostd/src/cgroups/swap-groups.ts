import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { CgroupHierarchy } from './cgroup-hierarchies.ts';
import { groupsIn, ignoreGone } from './freezer.ts';

const FILE = 'memory.swappiness';
/** The kernel swaps nothing of a group, or takes its memory as readily as file caches. */
const SWAPPINESS = { never: '0', readily: '100' } as const;

/**
 * Decides whose memory the kernel may move to swap: that of frozen instances, never that of others. Version 2 has no
 * such setting; there, the limits of an instance keep its memory out of swap (`divided-group.ts`).
 */
export class SwapGroups {
  /** Group of all instances in the hierarchy that counts memory. Undefined where the kernel lacks the setting. */
  readonly #parent: string | undefined;

  constructor(hierarchies: readonly CgroupHierarchy[], parent: string) {
    const mountPoint = hierarchies.find(({ controllers }) => controllers.includes('memory'))?.mountPoint;
    const isSupported = mountPoint !== undefined && existsSync(join(mountPoint, FILE));
    this.#parent = isSupported ? join(mountPoint, parent) : undefined;
  }

  /** Whether the memory of an instance can be moved to swap at once. */
  get canReclaim(): boolean {
    return this.#parent !== undefined;
  }

  /** Creates the group of all instances. Its setting is inherited by each group that is created below. */
  createParent(): void {
    if (this.#parent === undefined) return;
    if (mkdirSync(this.#parent, { recursive: true }) === undefined) return;
    writeFileSync(join(this.#parent, FILE), SWAPPINESS.never);
  }

  /** Keeps what is in memory there, of an instance or of those to come. Does nothing for a group that is gone. */
  keepInMemory(key = ''): void {
    this.#set(key, SWAPPINESS.never);
  }

  /** Has the kernel take the memory of this instance before that of others. */
  preferSwap(key: string): void {
    this.#set(key, SWAPPINESS.readily);
  }

  /** Returns the file that takes all memory from the instance's group when `0` is written to it. */
  emptyingFile(key: string): string {
    if (this.#parent === undefined) throw new Error('these control groups cannot be emptied');
    return join(this.#parent, key, 'memory.force_empty');
  }

  #set(key: string, value: string): void {
    if (this.#parent === undefined) return;
    const groups = key === '' ? [this.#parent] : groupsIn(join(this.#parent, key));
    for (const group of groups) ignoreGone(() => writeFileSync(join(group, FILE), value));
  }
}
