import type { ChildProcess } from 'node:child_process';
import { randomHex } from '../base/random-hex.ts';
import { setOomScore } from '../memory/memory.ts';
import { findStart, KERNEL_MARK, killTree } from '../processes/process-tree.ts';
import type { ForkedKernel } from './forked-kernel.ts';
import type { KernelLink } from './kernel-link.ts';
import { type KernelOptions, type KernelSettings, startKernel } from './start-kernel.ts';

/** Bytes of a kernel's mark. In hexadecimal it fills the room that forked kernels reserve for it. */
export const KERNEL_MARK_BYTES = 18;

/** A kernel as a process: a child of the agent, or one that was forked into the sandbox and is a child of init. */
export class KernelOsProcess {
  readonly #options: KernelOptions;
  readonly #mark = randomHex(KERNEL_MARK_BYTES);
  /** Also the id of its session. */
  #pid: number | undefined;
  #forked: ForkedKernel | undefined;
  #joined = Promise.resolve();
  #busy: boolean | undefined;

  constructor(options: KernelOptions) {
    this.#options = options;
  }

  get forked(): ForkedKernel | undefined {
    return this.#forked;
  }

  /**
   * Resolves when the kernel is in the control group of kernels. Rejects if it cannot be moved there; with `ESRCH` the
   * kernel has ended.
   *
   * SECURITY: a kernel gets code only after it has joined the group. In that group a fork bomb takes no process from
   * the agent (e2e/security/limits).
   */
  get joined(): Promise<void> {
    return this.#joined;
  }

  /** Returns the environment of a kernel at that place. */
  environmentAt({ cwd, env }: KernelSettings): Record<string, string> {
    return { ...env, PWD: cwd, [KERNEL_MARK]: this.#mark };
  }

  start(place: KernelSettings, link: KernelLink): ChildProcess {
    const child = startKernel(this.#options, place.cwd, this.environmentAt(place), link);
    this.#pid = child.pid;
    if (child.pid !== undefined) this.#options.group.keep(child.pid);
    this.#joined = child.pid === undefined ? Promise.resolve() : this.#options.group.join(child.pid);
    return child;
  }

  /** Takes over a forked kernel. It is in its control group, has its user's rights, and waits for its place. */
  adopt(forked: ForkedKernel): void {
    this.#forked = forked;
    this.#pid = forked.pid;
    this.#options.group.keep(forked.pid);
  }

  /** Drops the forked kernel, so that another kernel can be started instead. */
  abandon(): void {
    if (this.#pid !== undefined) this.#options.group.giveUp(this.#pid);
    this.#forked = undefined;
    this.#pid = undefined;
    this.#busy = undefined;
  }

  /** Returns whether the process runs or is about to start. Asks the system, because the exit event can be late. */
  isAlive(): boolean {
    return this.#pid === undefined || findStart(this.#pid) !== undefined;
  }

  /** Sets the OOM score: when memory runs out, a busy kernel is killed first. */
  setBusy(busy: boolean): void {
    if (this.#pid === undefined || this.#busy === busy) return;
    this.#busy = busy;
    setOomScore(this.#pid, busy ? 1000 : 300);
  }

  /** Kills the kernel and everything that it started. Resolves when all processes have ended. */
  async kill(): Promise<void> {
    const { uid, gid, group } = this.#options;
    const pid = this.#pid;
    if (pid !== undefined) group.giveUp(pid);
    // init may have reaped the kernel, and its pid may belong to a process of another kernel by now.
    const isGone = this.#forked !== undefined && isAnother(this.#forked);
    if (pid !== undefined && !isGone) await killTree({ pid, mark: this.#mark, uid, gid });
    // Stray processes that multiply would leave no room for another kernel.
    if (group.isFull()) await group.clear();
  }
}

function isAnother({ pid, startTicks }: ForkedKernel): boolean {
  const start = findStart(pid);
  return start !== undefined && start !== startTicks;
}
