import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { HostdError } from '../base/hostd-error.ts';
import { errorCode } from '../linux/libc.ts';
import type { CgroupHierarchy } from './cgroup-hierarchies.ts';

/** Longest wait until all processes of a group stand still. One in an uninterruptible sleep of the kernel may not. */
const FREEZE_MS = 1000;
const FIRST_PAUSE_MS = 0.5;
const LONGEST_PAUSE_MS = 20;

/** File, contents and report of the freezer of each version of control groups. */
const FREEZERS = {
  1: { file: 'freezer.state', frozen: 'FROZEN', thawed: 'THAWED', report: 'freezer.state', isFrozen: /^FROZEN$/m },
  2: { file: 'cgroup.freeze', frozen: '1', thawed: '0', report: 'cgroup.events', isFrozen: /^frozen 1$/m },
} as const;

/**
 * Stops and continues all processes of an instance's group and of the groups below it. The kernel is the only record of
 * what is frozen.
 */
export class Freezer {
  readonly #hierarchy: CgroupHierarchy | undefined;
  readonly #parent: string;

  constructor(hierarchies: readonly CgroupHierarchy[], parent: string) {
    this.#hierarchy = freezingHierarchy(hierarchies);
    this.#parent = parent;
  }

  /** Whether this host can freeze groups. */
  get isAvailable(): boolean {
    return this.#hierarchy !== undefined;
  }

  /** Whether SIGKILL ends a frozen process only after its thaw. */
  get delaysKills(): boolean {
    return this.#hierarchy?.version === 1;
  }

  /** Resolves when no process of the group executes. Idempotent. Throws `freeze_failed`, and the group goes on. */
  async freeze(key: string): Promise<void> {
    const hierarchy = this.#hierarchy;
    if (hierarchy === undefined) throw new HostdError('freeze_failed', 'this host has no freezer of control groups');
    const { file, frozen } = FREEZERS[hierarchy.version];
    const deadline = performance.now() + FREEZE_MS;
    try {
      writeFileSync(join(hierarchy.mountPoint, this.#parent, key, file), frozen);
      for (let pause = FIRST_PAUSE_MS; !this.isFrozen(key); pause = Math.min(pause * 2, LONGEST_PAUSE_MS)) {
        if (performance.now() > deadline) throw new Error(`its processes did not stop within ${FREEZE_MS} ms`);
        await delay(pause);
      }
    } catch (cause) {
      this.thaw(key);
      const reason = cause instanceof Error ? cause.message : String(cause);
      throw new HostdError('freeze_failed', `${key} could not be frozen: ${reason}`, { cause });
    }
  }

  /** Lets the group and the groups below it go on. Idempotent; does nothing for a group that is gone. */
  thaw(key: string): void {
    const hierarchy = this.#hierarchy;
    if (hierarchy === undefined) return;
    const { file, thawed } = FREEZERS[hierarchy.version];
    for (const group of groupsIn(join(hierarchy.mountPoint, this.#parent, key))) {
      ignoreGone(() => writeFileSync(join(group, file), thawed));
    }
  }

  /** Whether no process of the group executes, because the group is frozen. */
  isFrozen(key: string): boolean {
    const hierarchy = this.#hierarchy;
    if (hierarchy === undefined) return false;
    const { report, isFrozen } = FREEZERS[hierarchy.version];
    const folder = join(hierarchy.mountPoint, this.#parent, key);
    return isFrozen.test(ignoreGone(() => readFileSync(join(folder, report), 'utf8')) ?? '');
  }
}

/** Returns the hierarchy whose groups can be frozen: the freezer's own of version 1, or the only one of version 2. */
function freezingHierarchy(hierarchies: readonly CgroupHierarchy[]): CgroupHierarchy | undefined {
  const ofVersion1 = hierarchies.filter(({ version }) => version === 1);
  if (ofVersion1.length === 0) return hierarchies.find(({ version }) => version === 2);
  return ofVersion1.find(({ controllers }) => controllers.includes('freezer'));
}

/** Returns the folder of a group, then those of the groups below it: a runtime may have frozen one by itself. */
export function groupsIn(folder: string): string[] {
  const entries = ignoreGone(() => readdirSync(folder, { withFileTypes: true })) ?? [];
  const below = entries.filter((entry) => entry.isDirectory()).flatMap(({ name }) => groupsIn(join(folder, name)));
  return [folder, ...below];
}

/** Returns undefined if the group is gone, which happens between any two looks at it. */
export function ignoreGone<T>(act: () => T): T | undefined {
  try {
    return act();
  } catch (error) {
    if (errorCode(error) === 'ENOENT' || errorCode(error) === 'ENODEV') return undefined;
    throw error;
  }
}
