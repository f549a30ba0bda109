import { type MachineMemory, machineMemory } from '@cloche/layout';
import { HostdError } from '../base/hostd-error.ts';

const MEBIBYTE = 1024 * 1024;

export interface MemoryRoomOptions {
  /** Bytes of the machine's memory that stay available. */
  keepBytes: number;
  /** How many times the machine's memory may be promised by limits; without it, there is no bound. */
  overcommit?: number | undefined;
  /** Returns the sum of the limits of sandboxes that are not frozen. Called only with `overcommit`. */
  promisedBytes: () => number;
  /** Frees memory until `isEnough`, or as much as can be freed at once. */
  makeRoom: (isEnough: () => boolean) => Promise<void>;
  read?: () => MachineMemory;
}

/** Refuses launches and thaws for which the machine has no memory, after all has been freed that can be. */
export class MemoryRoom {
  readonly #options: MemoryRoomOptions;
  /** Bytes that launches and thaws under way will take. The machine's figures do not include them yet. */
  readonly #expected = new Sum();
  readonly #promised = new Sum();

  constructor(options: MemoryRoomOptions) {
    this.#options = options;
  }

  /**
   * Reserves memory until it is in use, when the caller disposes of the result.
   *
   * @throws HostdError `no_capacity`
   */
  async take(bytes: number): Promise<Disposable> {
    const lacking = () => this.#lackingFor(bytes);
    if (lacking() > 0) await this.#options.makeRoom(() => lacking() <= 0);
    if (lacking() <= 0) return this.#expected.add(bytes);
    const [lackingMb, keptMb] = [lacking(), this.#options.keepBytes].map(inMebibytes);
    const message = `${lackingMb} MiB of memory are lacking, with ${keptMb} MiB kept free (CLOCHE_MEMORY_KEEP_MB)`;
    throw new HostdError('no_capacity', message);
  }

  /**
   * Counts a memory limit until a record has it, when the caller disposes of the result.
   *
   * @throws HostdError `no_capacity`
   */
  promise(limitBytes: number): Disposable {
    const { overcommit, promisedBytes, read = machineMemory } = this.#options;
    if (overcommit !== undefined) {
      const promised = promisedBytes() + this.#promised.bytes + limitBytes;
      const most = overcommit * read().totalBytes;
      const [promisedMb, mostMb] = [promised, most].map(inMebibytes);
      const message = `sandboxes would have limits of ${promisedMb} MiB in total, of at most ${mostMb} MiB (CLOCHE_MEMORY_OVERCOMMIT is ${overcommit})`;
      if (promised > most) throw new HostdError('no_capacity', message);
    }
    return this.#promised.add(limitBytes);
  }

  #lackingFor(bytes: number): number {
    const { keepBytes, read = machineMemory } = this.#options;
    return keepBytes + bytes + this.#expected.bytes - read().availableBytes;
  }
}

/** A sum of which each part is there until it is disposed of. */
class Sum {
  bytes = 0;

  add(bytes: number): Disposable {
    this.bytes += bytes;
    return { [Symbol.dispose]: () => (this.bytes -= bytes) };
  }
}

function inMebibytes(bytes: number): number {
  return Math.ceil(bytes / MEBIBYTE);
}
