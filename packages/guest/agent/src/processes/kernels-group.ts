import { readFileSync, write } from 'node:fs';
import { dirname, join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { promisify } from 'node:util';
import { findOwnGroups } from './own-groups.ts';
import { kill, membersOf } from './process-tree.ts';

const writeTo = promisify(write);

const CROWD = 32;
const CLEAR_WITHIN_MS = 3000;
const PAUSE_MS = 5;

/**
 * The control group of everything that clients start. The processes in it share the CPU, memory and process limits of
 * the sandbox. They cannot exhaust the agent, which is in a group beside it. `CLOCHE_KERNELS_GROUP_FDS` names
 * descriptors that hostd has opened: writing a process id to each of them moves that process, and everything that it
 * starts later, into the group. Without descriptors there is no such group.
 */
export class KernelsGroup {
  readonly #descriptors: readonly number[];
  readonly #folders: readonly string[];
  /** Running kernels and supervisors; each is also the id of its session. */
  readonly #kept = new Set<number>();

  /** @param folders of the group, one of each hierarchy that may count processes. */
  constructor(descriptors: readonly number[], folders = descriptors.length > 0 ? ownFolders() : []) {
    this.#descriptors = descriptors;
    this.#folders = folders;
  }

  /** Moves a process that has not started any other. Rejects if that fails; the process must not run then. */
  async join(pid: number): Promise<void> {
    await Promise.all(this.#descriptors.map((fd) => writeTo(fd, String(pid))));
  }

  /** Whether the group has so many processes that each of them hardly gets any CPU time. */
  isCrowded(): boolean {
    return this.#processes().length > CROWD;
  }

  /** Whether the group has more than half of the sandbox's process limit. */
  isFull(): boolean {
    return this.#processes().length > Number(this.#read('pids.max')) / 2;
  }

  /** Whether the limit leaves room for that many processes and threads. */
  hasRoomFor(tasks: number): boolean {
    const [most, current] = [this.#read('pids.max'), this.#read('pids.current')].map(Number.parseFloat);
    // NaN or undefined where there is no limit or no such group.
    return most === undefined || current === undefined || !(most - current < tasks);
  }

  /**
   * Returns how often the limit has refused a process or thread. A version 2 counter includes the groups below it; a
   * version 1 counter does not, and each group has one.
   */
  countRefusals(): number {
    const folders = this.#folders.flatMap((folder) => [folder, dirname(folder)]);
    const counts = folders.map((folder) => /^max (\d+)/m.exec(readIn(folder, 'pids.events') ?? '')?.[1] ?? 0);
    return counts.reduce((sum: number, count) => sum + Number(count), 0);
  }

  /** Excludes the leader of a session, the session and all their descendants from `clear`, until `giveUp`. */
  keep(leader: number): void {
    this.#kept.add(leader);
  }

  giveUp(leader: number): void {
    this.#kept.delete(leader);
  }

  /** Kills all processes in the group that were not kept, until none is left. */
  async clear(): Promise<void> {
    const deadline = performance.now() + CLEAR_WITHIN_MS;
    for (let pids = this.#strays(); pids.length > 0 && performance.now() < deadline; pids = this.#strays()) {
      kill(pids);
      await setTimeout(PAUSE_MS);
    }
  }

  #strays(): number[] {
    // Listed first, so that a process that was forked meanwhile is not taken for a stray.
    const pids = this.#processes();
    const kept = new Set(membersOf(new Set(this.#kept)).map(({ pid }) => pid));
    return pids.filter((pid) => !kept.has(pid));
  }

  #processes(): number[] {
    return this.#read('cgroup.procs').split('\n').filter(Boolean).map(Number);
  }

  /** Returns a file of the group; empty if there is no such group. */
  #read(file: string): string {
    // On a hybrid host another hierarchy counts processes.
    for (const folder of this.#folders) {
      const text = readIn(folder, file);
      if (text !== undefined) return text;
    }
    return '';
  }
}

function ownFolders(): string[] {
  return findOwnGroups('pids').map(({ whole }) => join(whole, 'kernels'));
}

function readIn(folder: string, file: string): string | undefined {
  try {
    return readFileSync(join(folder, file), 'utf8').trim();
  } catch {
    return undefined;
  }
}
