import type { ChildProcess } from 'node:child_process';
import { randomHex } from '../base/random-hex.ts';
import { setOomScore } from '../memory/memory.ts';
import { findStart, KERNEL_MARK, killTree } from '../processes/process-tree.ts';
import type { ForkedKernel } from './forked-kernel.ts';
import type { KernelLink } from './kernel-link.ts';
import { type KernelPlace, type KernelSpec, startKernel } from './start-kernel.ts';

/** In hexadecimal digits it fills the room that forked kernels have for it. */
export const KERNEL_MARK_BYTES = 18;

/** A kernel as the operating system has it: a child of the agent, or one that was forked in and that init waits for. */
export class KernelBody {
  readonly #spec: KernelSpec;
  readonly #mark = randomHex(KERNEL_MARK_BYTES);
  /** Also its session. */
  #pid: number | undefined;
  #forked: ForkedKernel | undefined;
  #joined = Promise.resolve();
  #busy: boolean | undefined;

  constructor(spec: KernelSpec) {
    this.#spec = spec;
  }

  get forked(): ForkedKernel | undefined {
    return this.#forked;
  }

  /**
   * Resolves when it is among the kernels. Rejects if it cannot be; with `ESRCH` it has ended.
   *
   * SECURITY: a kernel is told to run code only when it is among the kernels, where a fork bomb takes nothing from the
   * agent (e2e/security/limits).
   */
  get joined(): Promise<void> {
    return this.#joined;
  }

  /** What it finds in its environment there. */
  environmentAt({ cwd, env }: KernelPlace): Record<string, string> {
    return { ...env, PWD: cwd, [KERNEL_MARK]: this.#mark };
  }

  start(place: KernelPlace, link: KernelLink): ChildProcess {
    const child = startKernel(this.#spec, place.cwd, this.environmentAt(place), link);
    this.#pid = child.pid;
    if (child.pid !== undefined) this.#spec.group.keep(child.pid);
    this.#joined = child.pid === undefined ? Promise.resolve() : this.#spec.group.join(child.pid);
    return child;
  }

  /** It is in its control group, has its user's rights, and runs nothing before it is told where. */
  adopt(forked: ForkedKernel): void {
    this.#forked = forked;
    this.#pid = forked.pid;
    this.#spec.group.keep(forked.pid);
  }

  /** Another is to be started in the place of the one that was forked in. */
  abandon(): void {
    if (this.#pid !== undefined) this.#spec.group.giveUp(this.#pid);
    this.#forked = undefined;
    this.#pid = undefined;
    this.#busy = undefined;
  }

  /** Whether it lives, or is about to. An end that nobody was told of yet counts. */
  isAlive(): boolean {
    return this.#pid === undefined || findStart(this.#pid) !== undefined;
  }

  /** The busiest goes first when memory runs out. */
  setBusy(busy: boolean): void {
    if (this.#pid === undefined || this.#busy === busy) return;
    this.#busy = busy;
    setOomScore(this.#pid, busy ? 1000 : 300);
  }

  /** Ends it and everything that it started. Resolves when all are gone. */
  async kill(): Promise<void> {
    const { uid, gid, group } = this.#spec;
    const pid = this.#pid;
    if (pid !== undefined) group.giveUp(pid);
    // The number of a process that nobody waits for may be another's by now; that one's session is its own.
    const isGone = this.#forked !== undefined && isAnother(this.#forked);
    if (pid !== undefined && !isGone) await killTree({ pid, mark: this.#mark, uid, gid });
    // What multiplies and belongs to nobody leaves no room for another kernel.
    if (group.isFull()) await group.clear();
  }
}

function isAnother({ pid, startTicks }: ForkedKernel): boolean {
  const start = findStart(pid);
  return start !== undefined && start !== startTicks;
}
