import { execFile } from 'node:child_process';
import { chownSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { randomHex } from '../base/random-hex.ts';
import { STANDARD_STREAMS } from '../base/standard-stream.ts';

const run = promisify(execFile);

/** Kernels that pipes are made for at once. One call of `mkfifo` takes the same time for several. */
const AT_ONCE = 8;
const NAME_BYTES = 16;

/**
 * Creates named pipes for kernels in a folder where only root can create files. A pipe has its kernel's name, by which
 * the agent finds it, and belongs to the kernels' user.
 */
export class KernelPipes {
  readonly #folder: string;
  readonly #uid: number;
  readonly #gid: number;
  readonly #names: string[] = [];
  #making: Promise<void> | undefined;

  constructor(folder: string, { uid, gid }: { uid: number; gid: number }) {
    this.#folder = folder;
    this.#uid = uid;
    this.#gid = gid;
  }

  /** Returns the name of a kernel whose pipes exist. Rejects if they cannot be created. */
  async take(): Promise<string> {
    if (this.#names.length === 0) await this.#prepare();
    const name = this.#names.shift();
    if (name === undefined) return this.take();
    // Done ahead, so that the next kernel need not wait.
    if (this.#names.length === 0) this.#prepare().catch(() => undefined);
    return name;
  }

  /** Creates pipes. A call while they are being created waits for those. */
  #prepare(): Promise<void> {
    this.#making ??= this.#make().finally(() => {
      this.#making = undefined;
    });
    return this.#making;
  }

  /** Removes the names of a kernel's pipes. Idempotent. */
  discard(name: string): void {
    for (const path of this.#pathsOf(name)) rmSync(path, { force: true });
  }

  async #make(): Promise<void> {
    const names = Array.from({ length: AT_ONCE }, () => randomHex(NAME_BYTES));
    const paths = names.flatMap((name) => this.#pathsOf(name));
    await run('mkfifo', ['-m', '0600', ...paths]);
    for (const path of paths) chownSync(path, this.#uid, this.#gid);
    this.#names.push(...names);
  }

  #pathsOf(name: string): string[] {
    return STANDARD_STREAMS.map((stream) => join(this.#folder, `${name}.${stream}`));
  }
}
