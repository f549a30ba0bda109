import { write } from 'node:fs';
import { promisify } from 'node:util';

const writeTo = promisify(write);

/**
 * The control group of whatever a client starts. There they share the processor, the memory and the processes that the
 * sandbox was given, and can take nothing from the agent, which is in a group beside it. `CLOCHE_KERNELS_GROUP_FDS` names
 * descriptors that hostd opened: a process whose id is written to each of them is in the group from then on, with all
 * that it starts afterwards. None where there is no such group.
 */
export class KernelsGroup {
  readonly #descriptors: readonly number[];

  constructor(descriptors: readonly number[]) {
    this.#descriptors = descriptors;
  }

  /** Moves a process that has started nothing yet. Rejects when that is not possible, as it must not go on then. */
  async join(pid: number): Promise<void> {
    await Promise.all(this.#descriptors.map((fd) => writeTo(fd, String(pid))));
  }
}
