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
 * The control group of whatever a client starts. There they share the processor, the memory and the processes that the
 * sandbox was given, and can take nothing from the agent, which is in a group beside it. `CLOCHE_KERNELS_GROUP_FDS` names
 * descriptors that hostd opened: a process whose id is written to each of them is in the group from then on, with all
 * that it starts afterwards. None where there is no such group.
 */
export class KernelsGroup {
  readonly #descriptors: readonly number[];
  readonly #folders: readonly string[];
  /** Sessions of kernels that live, with what these have started. */
  readonly #kept = new Set<number>();

  constructor(descriptors: readonly number[]) {
    this.#descriptors = descriptors;
    const groups = descriptors.length > 0 ? findOwnGroups('pids') : [];
    this.#folders = groups.map(({ whole }) => join(whole, 'kernels'));
  }

  /** Moves a process that has started nothing yet. Rejects when that is not possible, as it must not go on then. */
  async join(pid: number): Promise<void> {
    await Promise.all(this.#descriptors.map((fd) => writeTo(fd, String(pid))));
  }

  /** Whether so many processes are there that one of them hardly gets to do anything. */
  isCrowded(): boolean {
    return this.#processes().length > CROWD;
  }

  /** Whether more than half of the processes that the sandbox may have are there. */
  isFull(): boolean {
    return this.#processes().length > Number(this.#read('pids.max')) / 2;
  }

  /** Whether a program with that many processes and threads still has room there. */
  hasRoomFor(tasks: number): boolean {
    const [most, current] = [this.#read('pids.max'), this.#read('pids.current')].map(Number.parseFloat);
    // Not numbers where there is no bound, or no such group.
    return most === undefined || current === undefined || !(most - current < tasks);
  }

  /** `clear` leaves that session alone, until `giveUp`. */
  keep(session: number): void {
    this.#kept.add(session);
  }

  giveUp(session: number): void {
    this.#kept.delete(session);
  }

  /** Kills all that is in it, but for the sessions of kernels that live, until nothing is. */
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

  /** Empty where there is no such group. */
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
