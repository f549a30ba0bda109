import { readFileSync, write } from 'node:fs';
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { promisify } from 'node:util';
import { findOwnGroups } from './own-groups.ts';
import { findSession, kill } from './process-tree.ts';

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
  /** Sessions of running kernels and of what they have started. */
  readonly #kept = new Set<number>();

  constructor(descriptors: readonly number[]) {
    this.#descriptors = descriptors;
    const groups = descriptors.length > 0 ? findOwnGroups('pids') : [];
    this.#folders = groups.map(({ whole }) => join(whole, 'kernels'));
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

  /** Excludes a session from `clear`, until `giveUp`. */
  keep(session: number): void {
    this.#kept.add(session);
  }

  giveUp(session: number): void {
    this.#kept.delete(session);
  }

  /** Kills all processes in the group, except sessions of running kernels, until none is left. */
  async clear(): Promise<void> {
    const deadline = performance.now() + CLEAR_WITHIN_MS;
    const strays = () => this.#processes().filter((pid) => this.#kept.size === 0 || !this.#kept.has(findSession(pid)));
    for (let pids = strays(); pids.length > 0 && performance.now() < deadline; pids = strays()) {
      kill(pids);
      await setTimeout(PAUSE_MS);
    }
  }

  #processes(): number[] {
    return this.#read('cgroup.procs').split('\n').filter(Boolean).map(Number);
  }

  /** Returns a file of the group; empty if there is no such group. */
  #read(file: string): string {
    for (const folder of this.#folders) {
      try {
        return readFileSync(join(folder, file), 'utf8').trim();
      } catch {
        // On a hybrid host another hierarchy counts processes.
      }
    }
    return '';
  }
}
