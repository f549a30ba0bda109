import { chownSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { makeFifo } from '../base/make-fifo.ts';
import { randomHex } from '../base/random-hex.ts';
import { STANDARD_STREAMS } from '../base/standard-stream.ts';

const NAME_BYTES = 16;

/**
 * Creates named pipes for kernels in a folder where only root can create files. A pipe has its kernel's name, by which
 * the agent finds it, and belongs to the kernels' user.
 */
export class KernelPipes {
  readonly #folder: string;
  readonly #uid: number;
  readonly #gid: number;

  constructor(folder: string, { uid, gid }: { uid: number; gid: number }) {
    this.#folder = folder;
    this.#uid = uid;
    this.#gid = gid;
  }

  /** Returns the name of a kernel whose pipes exist. Throws if they cannot be created. */
  take(): string {
    const name = randomHex(NAME_BYTES);
    for (const path of this.#pathsOf(name)) {
      makeFifo(path, 0o600);
      chownSync(path, this.#uid, this.#gid);
    }
    return name;
  }

  /** Removes the names of a kernel's pipes. Idempotent. */
  discard(name: string): void {
    for (const path of this.#pathsOf(name)) rmSync(path, { force: true });
  }

  #pathsOf(name: string): string[] {
    return STANDARD_STREAMS.map((stream) => join(this.#folder, `${name}.${stream}`));
  }
}
