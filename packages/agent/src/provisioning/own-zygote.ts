import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import type { Socket } from 'node:net';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import type { Language } from '@cloche/protocol';
import type { AgentConfig } from '../config.ts';
import type { ForkedKernel } from '../kernels/forked-kernel.ts';
import { KERNEL_MARK_BYTES } from '../kernels/kernel-body.ts';
import { setOomScore } from '../memory/memory.ts';
import { KERNEL_MARK } from '../processes/process-tree.ts';
import type { KernelArrivals } from './kernel-arrivals.ts';
import { KernelPipes } from './kernel-pipes.ts';
import type { Zygote } from './zygote.ts';

const CONTROL_FD = 3;
/** Longer than starting a kernel takes: one that does not come by then comes from a zygote that was stopped. */
const ARRIVAL_MS = 5_000;
const MAX_REPORT_CHARACTERS = 4096;
/** One that never loads never will, as where a template has not all that a kernel needs. */
const MAX_FAILURES = 4;

/** Loading takes a processor for seconds: what somebody waits for comes first. */
const QUIET_MS = 300;
/** One that ended is started anew after that long, and after twice as long each time. */
const FIRST_PAUSE_MS = 1_000;
const LAST_PAUSE_MS = 60_000;

/** Time for the first request after a launch, or for the launch of another sandbox, which both go before loading. */
const AFTER_LAUNCH_MS = 3_000;

/** If no Python context was opened this long after another language's, assume that none will be. */
const UNWANTED_MS = 180_000;

export interface OwnZygoteOptions {
  /** Whether the sandbox can do without the memory that it takes. */
  hasRoom: () => boolean;
  /** Called when kernels can be forked. */
  onReady?: () => void;
  /** Called when it has ended because the sandbox does not use Python. */
  onUnwanted?: () => void;
}

/**
 * The zygote of the sandbox itself, for runtimes that let no process in from outside. Its kernels arrive where those of
 * hostd do. The sandbox works without it, only slower: it is a process of the user, whose code may kill it.
 */
export class OwnZygote implements Zygote {
  readonly #config: AgentConfig;
  readonly #arrivals: KernelArrivals;
  readonly #pipes: KernelPipes;
  readonly #options: OwnZygoteOptions;
  readonly #isOver = new AbortController();
  #current: ChildProcess | undefined;
  #isReady = false;
  /** Stopped while it was loading. */
  #isHeld = false;
  #last: Promise<unknown> = Promise.resolve();
  #starting: NodeJS.Timeout | undefined;
  #kept: Promise<void> | undefined;
  #isPythonUsed = false;
  #unwanted: NodeJS.Timeout | undefined;

  /** @param arrivals where its kernels connect. */
  constructor(config: AgentConfig & { kernelsFolder: string }, arrivals: KernelArrivals, options: OwnZygoteOptions) {
    this.#config = config;
    this.#arrivals = arrivals;
    this.#pipes = new KernelPipes(config.kernelsFolder, config);
    this.#options = options;
  }

  /** Loads one some time after the sandbox was launched. */
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

  /** A cell of the client gets the processor before a zygote that is loading. */
  noteBusy(busy: boolean): void {
    if (busy) this.postpone();
    else if (this.#isPythonUsed) this.startSoon();
  }

  /** The next kernel would not fit either, and each costs what it takes to fork it. */
  noteMismatch(): void {
    void this.close();
  }

  /** Its own reports tell when a fork fails. */
  giveUp(): void {}

  /** Loads one, or goes on with it, unless it is postponed for so long; and another when that ends. Idempotent. */
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

  /** Until `startSoon` is called anew, if it is not loaded. */
  postpone(): void {
    clearTimeout(this.#starting);
    this.#starting = undefined;
    if (this.#current === undefined || this.#isReady) return;
    this.#isHeld = true;
    this.#signal('SIGSTOP');
  }

  /** Whether it will have kernels to give before long, and has none now. */
  get isComing(): boolean {
    return this.#starting !== undefined || (this.#current !== undefined && !this.#isReady);
  }

  fork(): Promise<ForkedKernel | undefined> {
    const taken = this.#last.then(() => this.#forkNext()).catch(() => undefined);
    this.#last = taken;
    return taken;
  }

  /** Gives back its memory. Whether there was any. */
  release(): boolean {
    return this.#signal('SIGKILL');
  }

  /** For good; its kernels live on. Resolves when it is gone. Idempotent. */
  async close(): Promise<void> {
    this.#isOver.abort();
    clearTimeout(this.#unwanted);
    this.postpone();
    this.release();
    await this.#kept;
  }

  /** Whether there is one that gets it. */
  #signal(signal: NodeJS.Signals): boolean {
    const { pid } = this.#current ?? {};
    try {
      return pid !== undefined && process.kill(pid, signal);
    } catch {
      // It has ended by itself.
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
    // Without descriptors left it has no `stdio`; its `error` tells.
    return this.#current?.stdio?.[CONTROL_FD] as Socket | undefined;
  }

  async #keep(): Promise<void> {
    const { signal } = this.#isOver;
    let pauseMs = FIRST_PAUSE_MS;
    for (let failures = 0; failures < MAX_FAILURES && !signal.aborted; ) {
      // Where there is no memory for a process, or no descriptor, there is no child either.
      if (this.#options.hasRoom()) failures = (await this.#runOne().catch(() => false)) ? 0 : failures + 1;
      await delay(pauseMs, undefined, { signal, ref: false }).catch(() => undefined);
      pauseMs = Math.min(pauseMs * 2, LAST_PAUSE_MS);
    }
  }

  /** From its start to its end. Whether it could be used meanwhile. */
  async #runOne(): Promise<boolean> {
    const child = this.#spawn();
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
    const { kernelsFolder: agentPlace, home } = this.#config;
    control?.write(JSON.stringify({ within: true, agentPlace, home }));
    await ended;
    control?.destroy();
    this.#current = undefined;
    const wasReady = this.#isReady;
    this.#isReady = false;
    this.#isHeld = false;
    if (wasReady) this.#arrivals.giveUp();
    return wasReady;
  }

  /** As its user, and in a session of its own, so that what ends a kernel does not end it. */
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
        // Of what lies in the user's home an interpreter runs some when it starts.
        HOME: '/nonexistent',
        USER: 'user',
        // Threads do not come along in a fork; a kernel starts as many as it may (`threads.py`).
        OPENBLAS_NUM_THREADS: '1',
        [KERNEL_MARK]: '-'.repeat(2 * KERNEL_MARK_BYTES),
      },
    });
  }

  /** What it says is a user's process's word: at most it is taken for ready, or a fork for failed. */
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
