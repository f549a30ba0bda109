import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import type { Socket } from 'node:net';
import { join } from 'node:path';
import type { AgentConfig } from '../config.ts';
import { KERNEL_MARK_BYTES } from '../kernels/kernel-os-process.ts';
import { setOomScore } from '../memory/memory.ts';
import type { KernelsGroup } from '../processes/kernels-group.ts';
import { KERNEL_MARK } from '../processes/process-tree.ts';

const CONTROL_FD = 3;
const MAX_REPORT_CHARACTERS = 4096;

/** Longest time for a zygote with warm imports to load, and how often that is checked. */
const IMPORT_MS = 60_000;
const TICK_MS = 250;

export interface ZygoteProgramOptions {
  /** Group of the zygote and its kernels. */
  group: Pick<KernelsGroup, 'join' | 'keep' | 'giveUp'>;
  /** Longest time for a zygote with warm imports to load. */
  importMs?: number;
  /** Called when the zygote can fork kernels. */
  onReady?: () => void;
}

/** The process of a zygote inside the sandbox. One runs at a time. It belongs to the user, whose code can kill it. */
export class ZygoteProgram {
  readonly #config: AgentConfig & { kernelsFolder: string };
  readonly #options: ZygoteProgramOptions;
  /** Called when a requested kernel will not come. */
  readonly #onLost: () => void;
  #current: ChildProcess | undefined;
  #isReady = false;
  #isHeld = false;

  constructor(config: AgentConfig & { kernelsFolder: string }, options: ZygoteProgramOptions, onLost: () => void) {
    this.#config = config;
    this.#options = options;
    this.#onLost = onLost;
  }

  /** Whether the sandbox has the files of the program. */
  get exists(): boolean {
    return [this.#config.python, this.#path].every((file) => existsSync(file));
  }

  /** Whether the zygote can fork kernels. */
  get isReady(): boolean {
    return this.#isReady;
  }

  /** Whether the zygote has started and cannot fork kernels yet. */
  get isLoading(): boolean {
    return this.#current !== undefined && !this.#isReady;
  }

  /** Whether it was stopped (SIGSTOP) while it was loading. */
  get isHeld(): boolean {
    return this.#isHeld;
  }

  /** Stops loading until `resume`. Does nothing to a loaded zygote. */
  hold(): void {
    if (!this.isLoading) return;
    this.#isHeld = true;
    this.#signal('SIGSTOP');
  }

  resume(): void {
    this.#isHeld = false;
    this.#signal('SIGCONT');
  }

  /** Returns whether there was a process to kill. */
  kill(): boolean {
    return this.#signal('SIGKILL');
  }

  /** Requests a kernel. */
  fork(kernelId: string): void {
    this.#control?.write(JSON.stringify({ id: kernelId, kernelId }));
  }

  /** Runs a zygote from its start to its end. Returns whether it became ready. */
  async run(imports: readonly string[]): Promise<boolean> {
    const child = this.#spawn();
    const { group } = this.#options;
    this.#current = child;
    const ended = Promise.race([once(child, 'exit'), once(child, 'error')]).catch(() => undefined);
    if (child.pid !== undefined) setOomScore(child.pid, 1000);
    const control = this.#control;
    control?.on('error', () => control.destroy()).setEncoding('utf8');
    let unread = '';
    control?.on('data', (text: string) => {
      const lines = (unread + text).slice(-MAX_REPORT_CHARACTERS).split('\n');
      unread = lines.pop() ?? '';
      for (const line of lines) this.#read(line);
    });
    const { kernelsFolder: agentPlace, home, guardedMemoryBytes } = this.#config;
    if (child.pid !== undefined) {
      group.keep(child.pid);
      // SECURITY: it loads nothing of the template before it has its setup, and then shares the limits of the kernels.
      await group.join(child.pid).catch(() => child.kill('SIGKILL'));
    }
    // Where the agent guards the memory, the kernel is gVisor's, which copies much after a fork (`gvisor_pages.py`).
    const copiesByPage = guardedMemoryBytes !== undefined;
    control?.write(JSON.stringify({ within: true, agentPlace, home, imports, copiesByPage }));
    const watch = imports.length > 0 ? this.#endIfSlow(child) : undefined;
    await ended;
    clearInterval(watch);
    if (child.pid !== undefined) group.giveUp(child.pid);
    control?.destroy();
    this.#current = undefined;
    const wasReady = this.#isReady;
    this.#isReady = false;
    this.#isHeld = false;
    if (wasReady) this.#onLost();
    return wasReady;
  }

  /** Kills a zygote that loads for too long. The time in which it was stopped does not count. */
  #endIfSlow(child: ChildProcess): NodeJS.Timeout {
    let ticks = 0;
    return setInterval(() => {
      if (!this.#isReady && !this.#isHeld) ticks += 1;
      if (ticks * TICK_MS > (this.#options.importMs ?? IMPORT_MS)) child.kill('SIGKILL');
    }, TICK_MS).unref();
  }

  /** Starts the zygote as the user, in its own session, so that killing a kernel's session does not kill it. */
  #spawn(): ChildProcess {
    const { python, uid, gid, baseEnv } = this.#config;
    const child = spawn(python, [this.#path], {
      cwd: '/',
      uid,
      gid,
      detached: true,
      stdio: ['ignore', 'ignore', 'ignore', 'pipe'],
      env: {
        PATH: baseEnv.PATH,
        LANG: 'C.UTF-8',
        // A Python interpreter runs files in the user's home when it starts, so it gets none.
        HOME: '/nonexistent',
        USER: 'user',
        // A fork copies no threads. A kernel starts as many as it may (`threads.py`).
        OPENBLAS_NUM_THREADS: '1',
        [KERNEL_MARK]: '-'.repeat(2 * KERNEL_MARK_BYTES),
      },
    });
    // Also after its end: signals to it may fail.
    return child.on('error', () => undefined);
  }

  /** Reads a report. It is untrusted, so at most it marks the zygote as ready, or a fork as failed. */
  #read(line: string): void {
    const type = /"type": "(ready|failed)"/.exec(line)?.[1];
    if (type === 'ready' && !this.#isReady) {
      this.#isReady = true;
      this.#options.onReady?.();
    } else if (type === 'failed') {
      this.#onLost();
    }
  }

  /** Sends a signal. Returns whether there was a zygote to receive it. */
  #signal(signal: NodeJS.Signals): boolean {
    const { pid } = this.#current ?? {};
    try {
      return pid !== undefined && process.kill(pid, signal);
    } catch {
      // The zygote has ended already.
      return false;
    }
  }

  get #path(): string {
    return join(this.#config.guestDir, 'python/cloche_zygote');
  }

  get #control(): Socket | undefined {
    // Without free descriptors there is no `stdio`. The `error` event reports that.
    return this.#current?.stdio?.[CONTROL_FD] as Socket | undefined;
  }
}
