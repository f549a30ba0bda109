import { execFile } from 'node:child_process';
import { chownSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { randomHex } from '../base/random-hex.ts';
import { STANDARD_STREAMS } from '../base/standard-stream.ts';

const run = promisify(execFile);

/** Making one takes a program, which is as quick with several. */
const AT_ONCE = 8;
const NAME_BYTES = 16;

/**
 * Named pipes for the standard output and error of kernels that cannot make any where the agent looks for them: by the
 * names of kernels, in a folder that root alone writes to. They belong to the user of the kernels.
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

  /** The name of a kernel whose pipes are there. Rejects when none can be made. */
  async take(): Promise<string> {
    if (this.#names.length === 0) await this.#prepare();
    const name = this.#names.shift();
    if (name === undefined) return this.take();
    // The next one shall not wait for them.
    if (this.#names.length === 0) this.#prepare().catch(() => undefined);
    return name;
  }

  /** Makes some, if none are being made. */
  #prepare(): Promise<void> {
    this.#making ??= this.#make().finally(() => {
      this.#making = undefined;
    });
    return this.#making;
  }

  /** Its pipes have no names any more. Idempotent. */
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
