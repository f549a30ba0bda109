import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { CgroupHierarchy } from './cgroup-hierarchies.ts';
import { groupsIn, ignoreGone } from './freezer.ts';

/** With version 1, the kernel swaps nothing of a group, or takes its memory as readily as file caches. */
const VERSION_1 = { file: 'memory.swappiness', never: '0', allowed: '100', emptying: 'memory.force_empty' } as const;
/** With version 2, a group may have no swap, or any amount. What is there stays until it is used. */
const VERSION_2 = { file: 'memory.swap.max', never: '0', allowed: 'max', emptying: 'memory.reclaim' } as const;
/** Off until the virtual machine, whose control groups have version 2, has shown that it works. */
const TAKES_VERSION_2 = false;

/** A text that takes all memory from a group when it is written to the file. */
export interface Emptying {
  readonly file: string;
  readonly text: string;
}

/**
 * Decides whose memory the kernel may move to swap: that of frozen instances, never that of others. In version 2, the
 * limits of an instance also keep its memory out of swap while it runs (`divided-group.ts`).
 */
export class SwapGroups {
  /** Group of all instances in the hierarchy that counts memory. Undefined where the kernel lacks the setting. */
  readonly #parent: string | undefined;
  readonly #files: typeof VERSION_1 | typeof VERSION_2;

  constructor(hierarchies: readonly CgroupHierarchy[], parent: string, takesVersion2 = TAKES_VERSION_2) {
    const counting = hierarchies.find(({ controllers }) => controllers.includes('memory'));
    const unified = takesVersion2 ? hierarchies.find(({ version }) => version === 2) : undefined;
    this.#files = counting ? VERSION_1 : VERSION_2;
    const mountPoint = (counting ?? unified)?.mountPoint;
    // The group at the root of version 2 has only one of the two files.
    const file = counting ? VERSION_1.file : VERSION_2.emptying;
    const isSupported = mountPoint !== undefined && existsSync(join(mountPoint, file));
    this.#parent = isSupported ? join(mountPoint, parent) : undefined;
  }

  /** Whether the memory of an instance can be moved to swap at once. */
  get canReclaim(): boolean {
    return this.#parent !== undefined;
  }

  /** Creates the group of all instances. In version 1, its setting is inherited by each group that is created below. */
  createParent(): void {
    if (this.#parent === undefined || this.#files === VERSION_2) return;
    if (mkdirSync(this.#parent, { recursive: true }) === undefined) return;
    writeFileSync(join(this.#parent, VERSION_1.file), VERSION_1.never);
  }

  /** Keeps what is in memory there, of an instance or of those to come. Does nothing for a group that is gone. */
  keepInMemory(key = ''): void {
    this.#set(key, this.#files.never);
  }

  /** Has the kernel take the memory of this instance before that of others. */
  preferSwap(key: string): void {
    this.#set(key, this.#files.allowed);
  }

  /** Returns what takes all memory from the instance's group. Call it after `preferSwap`. */
  emptying(key: string): Emptying {
    if (this.#parent === undefined) throw new Error('these control groups cannot be emptied');
    const group = join(this.#parent, key);
    const file = join(group, this.#files.emptying);
    if (this.#files === VERSION_1) return { file, text: '0' };
    return { file, text: ignoreGone(() => readFileSync(join(group, 'memory.current'), 'utf8'))?.trim() ?? '0' };
  }

  #set(key: string, value: string): void {
    // In version 2, a bound of the group of all instances would hold for those that are frozen too.
    if (this.#parent === undefined || (key === '' && this.#files === VERSION_2)) return;
    const groups = key === '' ? [this.#parent] : groupsIn(join(this.#parent, key));
    for (const group of groups) ignoreGone(() => writeFileSync(join(group, this.#files.file), value));
  }
}
