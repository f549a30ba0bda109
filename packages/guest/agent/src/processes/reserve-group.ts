import { write } from 'node:fs';
import { promisify } from 'node:util';
import { reportFailure } from '@cloche/node-support';
import type { KernelsGroup } from './kernels-group.ts';

const writeTo = promisify(write);

/** Processes that the kernels' group must have free for a command to start there: its supervisor and three more. */
const PROCESSES = 4;
/** Most commands that use the reserve or wait for it. */
const MAX_COMMANDS = 4;
/** Longest time that a command waits for the end of the one before it. */
const TURN_MS = 2000;

/**
 * A control group beside that of the kernels, with room for one command, by which the sandbox's owner ends what has
 * taken all processes. `CLOCHE_RESERVE_GROUP_FDS` names its descriptors, as `CLOCHE_KERNELS_GROUP_FDS` names those of
 * the kernels' group. Without descriptors there is no reserve.
 */
export class ReserveGroup {
  readonly #descriptors: readonly number[];
  readonly #kernels: KernelsGroup;
  readonly #commands = new Set<Promise<void>>();

  constructor(descriptors: readonly number[], kernels: KernelsGroup) {
    this.#descriptors = descriptors;
    this.#kernels = kernels;
  }

  /** Whether one more command may use the reserve. */
  get isOpen(): boolean {
    return this.#descriptors.length > 0 && this.#commands.size < MAX_COMMANDS;
  }

  /** Whether the kernels' group lacks processes for a command. */
  get isNeeded(): boolean {
    return this.isOpen && !this.#kernels.hasRoomFor(PROCESSES);
  }

  /**
   * Moves a process that has not started any other, when the commands before it have ended or have been waited for.
   * Rejects if the move fails; the process must not run then.
   *
   * @param ended resolves at the end of the process.
   */
  async join(pid: number, ended: Promise<void>): Promise<void> {
    const earlier = Promise.all(this.#commands);
    this.#commands.add(ended);
    ended.then(() => this.#commands.delete(ended)).catch(reportFailure);
    const { promise, resolve } = Promise.withResolvers<void>();
    const timer = setTimeout(resolve, TURN_MS);
    await Promise.race([earlier, promise, ended]);
    clearTimeout(timer);
    await Promise.all(this.#descriptors.map((fd) => writeTo(fd, String(pid))));
  }
}
