import { BackOff, reportFailure, Semaphore } from '@cloche/node-support';
import type { Language } from '@cloche/protocol';
import type { AgentConfig } from '../config.ts';
import type { ForkedKernel } from '../kernels/forked-kernel.ts';
import type { KernelArrivals } from './kernel-arrivals.ts';
import { KernelPipes } from './kernel-pipes.ts';
import type { Zygote } from './zygote.ts';
import { ZygoteProgram, type ZygoteProgramOptions } from './zygote-program.ts';

/**
 * Longest wait for a forked kernel. Starting a kernel takes less; a longer silence means that the zygote was stopped.
 */
const ARRIVAL_MS = 5_000;
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

export interface SandboxZygoteOptions extends ZygoteProgramOptions {
  /** Whether the sandbox has memory to spare for a zygote. */
  hasRoom: () => boolean;
  /** Called when there is no zygote for now: the sandbox has no memory to spare, or the zygote has ended. */
  onMissing?: () => void;
  /** Called when the zygote was closed because the sandbox does not use Python. */
  onUnwanted?: () => void;
}

/**
 * A zygote inside the sandbox, for runtimes that let no process in from outside, and for templates whose files a client
 * has made. Its kernels connect where those of hostd do. The sandbox works without it, only slower: the zygote is a
 * process of the user, whose code can kill it.
 */
export class SandboxZygote implements Zygote {
  readonly #program: ZygoteProgram;
  readonly #arrivals: KernelArrivals;
  readonly #pipes: KernelPipes;
  readonly #options: SandboxZygoteOptions;
  readonly #isOver = new AbortController();
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
    this.#program = new ZygoteProgram(config, options, () => arrivals.giveUp());
    this.#imports = config.warmImports;
    this.#arrivals = arrivals;
    this.#pipes = new KernelPipes(config.kernelsFolder, config);
    this.#options = options;
  }

  /** Starts loading some time after the launch of the sandbox. */
  startAfterLaunch(): void {
    this.startSoon(AFTER_LAUNCH_MS);
  }

  loadNow(): boolean {
    if (!this.#program.exists || this.#isOver.signal.aborted) return false;
    clearTimeout(this.#starting);
    this.#starting = undefined;
    this.startSoon(0);
    return true;
  }

  recordRequest(): void {
    if (!this.#isPythonUsed) this.postpone();
  }

  recordUse(language: Language): void {
    if (language === 'python') {
      clearTimeout(this.#unwanted);
      this.#unwanted = undefined;
      this.#isPythonUsed = true;
      this.startSoon();
    } else if (!this.#isPythonUsed) {
      this.#unwanted ??= setTimeout(() => {
        this.close().catch(reportFailure);
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
    this.close().catch(reportFailure);
  }

  /** Does nothing: the zygote itself reports a failed fork. */
  giveUp(): void {}

  /**
   * Starts or continues loading after `quietMs`, unless `postpone` is called. Restarts a zygote that ends. Idempotent.
   */
  startSoon(quietMs = QUIET_MS): void {
    const hasBegun = this.#kept !== undefined && !this.#program.isHeld;
    if (!this.#program.exists || hasBegun || this.#isOver.signal.aborted) return;
    this.#starting ??= setTimeout(() => {
      this.#starting = undefined;
      this.#program.resume();
      this.#kept ??= this.#keep();
    }, quietMs).unref();
  }

  /** Stops loading until `startSoon` is called again. Does nothing to a loaded zygote. */
  postpone(): void {
    clearTimeout(this.#starting);
    this.#starting = undefined;
    this.#program.hold();
  }

  /** Whether the zygote can fork soon, but not yet. */
  get isComing(): boolean {
    return this.#starting !== undefined || this.#program.isLoading;
  }

  fork(): Promise<ForkedKernel | undefined> {
    return this.#forks.run(this.#isOver.signal, () => this.#forkNext()).catch(() => undefined);
  }

  /** Frees the zygote's memory by killing it. Returns whether there was one. */
  release(): boolean {
    return this.#program.kill();
  }

  /** Ends the zygote for good; its kernels live on. Resolves when it has ended. Idempotent. */
  async close(): Promise<void> {
    this.#isOver.abort();
    clearTimeout(this.#unwanted);
    this.postpone();
    this.release();
    await this.#kept;
  }

  async #forkNext(): Promise<ForkedKernel | undefined> {
    if (!this.#program.isReady) return undefined;
    const kernelId = this.#pipes.take();
    try {
      this.#program.fork(kernelId);
      const kernel = await this.#arrivals.take(ARRIVAL_MS);
      if (kernel === undefined) this.release();
      return kernel;
    } finally {
      this.#pipes.discard(kernelId);
    }
  }

  async #keep(): Promise<void> {
    const { signal } = this.#isOver;
    const backOff = new BackOff(PAUSES);
    for (let failures = 0; failures < MAX_FAILURES && !signal.aborted; ) {
      // Without memory or descriptors for a process, `spawn` throws. That counts as a failure.
      const imports = this.#imports;
      const wasReady = this.#options.hasRoom() ? await this.#program.run(imports).catch(() => false) : undefined;
      if (wasReady === false && imports.length > 0 && !signal.aborted) {
        this.#imports = [];
        console.error(`warm imports are left out, because they cannot be loaded: ${imports.join(', ')}`);
        continue;
      }
      if (wasReady !== undefined) failures = wasReady ? 0 : failures + 1;
      this.#options.onMissing?.();
      await backOff.pause(signal, { ref: false });
    }
  }
}
