import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import type { Socket } from 'node:net';
import { join } from 'node:path';
import { BackOff, Semaphore } from '@cloche/node-support';
import type { Language } from '@cloche/protocol';
import type { AgentConfig } from '../config.ts';
import type { ForkedKernel } from '../kernels/forked-kernel.ts';
import { KERNEL_MARK_BYTES } from '../kernels/kernel-os-process.ts';
import { setOomScore } from '../memory/memory.ts';
import type { KernelsGroup } from '../processes/kernels-group.ts';
import { KERNEL_MARK } from '../processes/process-tree.ts';
import type { KernelArrivals } from './kernel-arrivals.ts';
import { KernelPipes } from './kernel-pipes.ts';
import type { Zygote } from './zygote.ts';

const CONTROL_FD = 3;
/**
 * Longest wait for a forked kernel. Starting a kernel takes less; a longer silence means that the zygote was stopped.
 */
const ARRIVAL_MS = 5_000;
const MAX_REPORT_CHARACTERS = 4096;
/** Failed starts after which no zygote is started any more. The template may lack what a kernel needs. */
const MAX_FAILURES = 4;

/** Quiet time before a zygote is loaded. Loading takes a CPU for seconds, and the client's requests come first. */
const QUIET_MS = 300;
/** Pauses before a zygote that ended is restarted. */
const PAUSES = { firstMs: 1_000, longestMs: 60_000 };

/** Delay after a launch, so that loading slows down neither the first request nor the launch of another sandbox. */
const AFTER_LAUNCH_MS = 3_000;

/** If no Python context was opened this long after another language's, assume that none will be. */
const UNWANTED_MS = 180_000;

/** Longest time for a zygote with warm imports to load, and how often that is checked. */
const IMPORT_MS = 60_000;
const TICK_MS = 250;

export interface SandboxZygoteOptions {
  /** Whether the sandbox has memory to spare for a zygote. */
  hasRoom: () => boolean;
  /** Group of the zygote and its kernels. */
  group: Pick<KernelsGroup, 'join' | 'keep' | 'giveUp'>;
  /** Longest time for a zygote with warm imports to load. */
  importMs?: number;
  /** Called when the zygote can fork kernels. */
  onReady?: () => void;
  /** Called when the zygote was closed because the sandbox does not use Python. */
  onUnwanted?: () => void;
}

/**
 * A zygote inside the sandbox, for runtimes that let no process in from outside, and for templates whose files a client
 * has made. Its kernels connect where those of hostd do. The sandbox works without it, only slower: the zygote is a
 * process of the user, whose code can kill it.
 */
export class SandboxZygote implements Zygote {
  readonly #config: AgentConfig;
  readonly #arrivals: KernelArrivals;
  readonly #pipes: KernelPipes;
  readonly #options: SandboxZygoteOptions;
  readonly #isOver = new AbortController();
  #current: ChildProcess | undefined;
  #isReady = false;
  /** Whether it was stopped (SIGSTOP) while it was loading. */
  #isHeld = false;
  /** Allows one fork at a time. */
  readonly #forks = new Semaphore(1);
  #starting: NodeJS.Timeout | undefined;
  #kept: Promise<void> | undefined;
  /** Modules of the template that are loaded ahead; none once loading them has failed. */
  #imports: readonly string[];
  #isPythonUsed = false;
  #unwanted: NodeJS.Timeout | undefined;

  /** @param arrivals where its kernels connect. */
  constructor(
    config: AgentConfig & { kernelsFolder: string },
    arrivals: KernelArrivals,
    options: SandboxZygoteOptions,
  ) {
    this.#config = config;
    this.#imports = config.warmImports;
    this.#arrivals = arrivals;
    this.#pipes = new KernelPipes(config.kernelsFolder, config);
    this.#options = options;
  }

  /** Starts loading some time after the launch of the sandbox. */
  startAfterLaunch(): void {
    this.startSoon(AFTER_LAUNCH_MS);
  }

  noteRequest(): void {
    if (!this.#isPythonUsed) this.postpone();
  }

  noteUse(language: Language): void {
    if (language === 'python') {
      clearTimeout(this.#unwanted);
      this.#unwanted = undefined;
      this.#isPythonUsed = true;
      this.startSoon();
    } else if (!this.#isPythonUsed) {
      this.#unwanted ??= setTimeout(() => {
        void this.close();
        this.#options.onUnwanted?.();
      }, UNWANTED_MS).unref();
    }
  }

  /** Gives a cell of the client the CPU before a zygote that is loading. */
  noteBusy(busy: boolean): void {
    if (busy) this.postpone();
    else if (this.#isPythonUsed) this.startSoon();
  }

  /** Closes the zygote. The next kernel would not match either, and each one costs a fork. */
  noteMismatch(): void {
    void this.close();
  }

  /** Does nothing: the zygote itself reports a failed fork. */
  giveUp(): void {}

  /**
   * Starts or continues loading after `quietMs`, unless `postpone` is called. Restarts a zygote that ends. Idempotent.
   */
  startSoon(quietMs = QUIET_MS): void {
    const isPossible = [this.#config.python, this.#program].every((file) => existsSync(file));
    const hasBegun = this.#kept !== undefined && !this.#isHeld;
    if (!isPossible || hasBegun || this.#isOver.signal.aborted) return;
    this.#starting ??= setTimeout(() => {
      this.#starting = undefined;
      this.#isHeld = false;
      this.#signal('SIGCONT');
      this.#kept ??= this.#keep();
    }, quietMs).unref();
  }

  /** Stops loading until `startSoon` is called again. Does nothing to a loaded zygote. */
  postpone(): void {
    clearTimeout(this.#starting);
    this.#starting = undefined;
    if (this.#current === undefined || this.#isReady) return;
    this.#isHeld = true;
    this.#signal('SIGSTOP');
  }

  /** Whether the zygote can fork soon, but not yet. */
  get isComing(): boolean {
    return this.#starting !== undefined || (this.#current !== undefined && !this.#isReady);
  }

  fork(): Promise<ForkedKernel | undefined> {
    return this.#forks.run(this.#isOver.signal, () => this.#forkNext()).catch(() => undefined);
  }

  /** Frees the zygote's memory by killing it. Returns whether there was one. */
  release(): boolean {
    return this.#signal('SIGKILL');
  }

  /** Ends the zygote for good; its kernels live on. Resolves when it has ended. Idempotent. */
  async close(): Promise<void> {
    this.#isOver.abort();
    clearTimeout(this.#unwanted);
    this.postpone();
    this.release();
    await this.#kept;
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

  async #forkNext(): Promise<ForkedKernel | undefined> {
    if (!this.#isReady) return undefined;
    const kernelId = await this.#pipes.take();
    try {
      if (!this.#isReady) return undefined;
      this.#control?.write(JSON.stringify({ id: kernelId, kernelId }));
      const kernel = await this.#arrivals.take(ARRIVAL_MS);
      if (kernel === undefined) this.release();
      return kernel;
    } finally {
      this.#pipes.discard(kernelId);
    }
  }

  get #program(): string {
    return join(this.#config.guestDir, 'python/cloche_zygote');
  }

  get #control(): Socket | undefined {
    // Without free descriptors there is no `stdio`. The `error` event reports that.
    return this.#current?.stdio?.[CONTROL_FD] as Socket | undefined;
  }

  async #keep(): Promise<void> {
    const { signal } = this.#isOver;
    const backOff = new BackOff(PAUSES);
    for (let failures = 0; failures < MAX_FAILURES && !signal.aborted; ) {
      // Without memory or descriptors for a process, `spawn` throws. That counts as a failure.
      const imports = this.#imports;
      const wasReady = this.#options.hasRoom() ? await this.#runOne(imports).catch(() => false) : undefined;
      if (wasReady === false && imports.length > 0 && !signal.aborted) {
        this.#imports = [];
        console.error(`warm imports are left out, because they cannot be loaded: ${imports.join(', ')}`);
        continue;
      }
      if (wasReady !== undefined) failures = wasReady ? 0 : failures + 1;
      await backOff.pause(signal, { ref: false });
    }
  }

  /** Runs a zygote from its start to its end. Returns whether it became ready. */
  async #runOne(imports: readonly string[]): Promise<boolean> {
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
    if (wasReady) this.#arrivals.giveUp();
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
    return spawn(python, [this.#program], {
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
  }

  /** Reads a report. It is untrusted, so at most it marks the zygote as ready, or a fork as failed. */
  #read(line: string): void {
    const type = /"type": "(ready|failed)"/.exec(line)?.[1];
    if (type === 'ready' && !this.#isReady) {
      this.#isReady = true;
      this.#options.onReady?.();
    } else if (type === 'failed') {
      this.#arrivals.giveUp();
    }
  }
}
