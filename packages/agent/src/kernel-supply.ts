import { totalmem } from 'node:os';
import type { Language } from '@cloche/protocol';
import type { AgentConfig } from './config.ts';
import type { ContextKernel } from './context.ts';
import type { ForkedKernels } from './forked-kernels.ts';
import { kernelCommand } from './kernel-launch.ts';
import type { KernelListener } from './kernel-listener.ts';
import { KernelProcess } from './kernel-process.ts';
import { KernelsGroup } from './kernels-group.ts';
import type { KernelPlace } from './start-kernel.ts';

/** The context that was just opened is likely to run something: that comes first. */
const RESTOCK_MS = 50;
/** A spare holds memory of the sandbox, so one that nobody wants goes. */
const SPARE_MS = 60_000;

/** In a sandbox with less, a spare would be missed by what runs there. */
const MIN_MEMORY_BYTES = 768 * 1024 * 1024;

/** A kernel that has its place and that nobody has taken by then is rehearsed: until then somebody may be about to. */
const REHEARSE_MS = 50;

/** Until it is somebody's. It may run nothing, so what it says is nobody's. */
const NOBODY: KernelListener = { ready() {}, printed() {}, message() {}, exited() {} };

interface LaunchOptions {
  forkedKernelMs: number;
  room?: Promise<void> | undefined;
}

/** What contexts need of where their kernels come from. */
export interface KernelSource extends Pick<KernelSupply, 'environment' | 'restock' | 'close' | 'giveUpForkedKernel'> {
  launch(...asked: Parameters<KernelSupply['launch']>): ContextKernel;
}

interface Spare {
  kernel: KernelProcess;
  timer?: NodeJS.Timeout;
}

/**
 * Where contexts get their kernels. Once a context was opened in a language whose kernels are started in here, another
 * kernel of the kind is started ahead: whoever opens a second context often opens a third.
 */
export class KernelSupply {
  readonly #config: AgentConfig;
  readonly #forkedKernels: ForkedKernels;
  readonly #spares = new Map<Language, Spare>();
  #restocking: NodeJS.Timeout | undefined;
  /** Told of a kernel that was forked in and that nobody has taken for a moment. */
  onWaiting: (kernel: KernelProcess) => void = () => undefined;
  #env: Readonly<Record<string, string>> = {};

  constructor(config: AgentConfig, forkedKernels: ForkedKernels) {
    this.#config = config;
    this.#forkedKernels = forkedKernels;
    forkedKernels.onSpare = () => this.#adoptSpare();
  }

  /** Variables of the client's, for kernels started from now on. */
  set environment(env: Readonly<Record<string, string>>) {
    this.#env = { ...env };
    for (const [language, { kernel }] of this.#spares) {
      if (!kernel.move(this.#placeIn(this.#config.workspace))) void this.#discard(language);
    }
  }

  get environment(): Readonly<Record<string, string>> {
    return this.#env;
  }

  /**
   * A kernel that is ready or about to be. One that is forked in from outside is waited for, for `forkedKernelMs`; none is
   * started before `room` is there. Throws `language_unavailable`.
   */
  launch(
    language: Language,
    cwd: string,
    listener: KernelListener,
    { forkedKernelMs, room }: LaunchOptions,
  ): KernelProcess {
    const spare = this.#takeFor(language, cwd);
    if (!spare?.isAlive()) {
      void spare?.stop('had ended');
      return this.#start(language, cwd, listener, { forkedKernelMs, room });
    }
    spare.handTo(listener);
    return spare;
  }

  /** To be called when a context was opened. Idempotent. */
  restock(language: Language): void {
    if (this.#restocking !== undefined || this.#spares.has(language) || this.#areForked(language)) return;
    if (totalmem() < MIN_MEMORY_BYTES) return;
    this.#restocking = setTimeout(() => {
      this.#restocking = undefined;
      this.#addSpare(language);
    }, RESTOCK_MS);
  }

  /** No forked kernel comes for a context that waits for one. */
  giveUpForkedKernel(): void {
    this.#forkedKernels.giveUp();
  }

  /** Resolves when no spare is left. */
  async close(): Promise<void> {
    clearTimeout(this.#restocking);
    await Promise.all([...this.#spares.keys()].map((language) => this.#discard(language)));
  }

  #addSpare(language: Language): void {
    try {
      const kernel = this.#start(language, this.#config.workspace, NOBODY, { forkedKernelMs: 0 });
      const timer = setTimeout(() => void this.#discard(language), SPARE_MS);
      this.#spares.set(language, { kernel, timer });
    } catch {
      // Its program has gone since: whoever opens the next context is told.
    }
  }

  /** One that was forked in ahead has its place at once, so that whoever opens the next context finds it ready. */
  #adoptSpare(): void {
    if (this.#spares.has('python')) return;
    const ready = () => {
      spare.timer ??= setTimeout(() => this.onWaiting(spare.kernel), REHEARSE_MS);
    };
    const listener = { ...NOBODY, ready };
    const kernel = this.#start('python', this.#config.workspace, listener, { forkedKernelMs: 0 });
    const spare: Spare = { kernel };
    this.#spares.set('python', spare);
  }

  #areForked(language: Language): boolean {
    return language === 'python' && this.#config.kernelsFolder !== undefined;
  }

  /** A spare that works there, or can: what is ready for the workspace stays for a context in the workspace. */
  #takeFor(language: Language, cwd: string): KernelProcess | undefined {
    const isElsewhere = cwd !== this.#config.workspace;
    if (isElsewhere && !this.#spares.get(language)?.kernel.move(this.#placeIn(cwd))) return undefined;
    return this.#take(language);
  }

  #take(language: Language): KernelProcess | undefined {
    const spare = this.#spares.get(language);
    this.#spares.delete(language);
    clearTimeout(spare?.timer);
    return spare?.kernel;
  }

  async #discard(language: Language): Promise<void> {
    await this.#take(language)?.stop('was not needed');
  }

  #start(
    language: Language,
    cwd: string,
    listener: KernelListener,
    { forkedKernelMs, room }: LaunchOptions,
  ): KernelProcess {
    const { uid, gid, kernelsGroupFds } = this.#config;
    const command = kernelCommand(language, this.#config);
    const place = this.#placeIn(cwd);
    const takeForked = async () => {
      await room;
      return language === 'python' ? this.#forkedKernels.take(forkedKernelMs) : undefined;
    };
    const group = new KernelsGroup(kernelsGroupFds);
    return new KernelProcess({ command, place, uid, gid, group, takeForked }, listener);
  }

  #placeIn(cwd: string): KernelPlace {
    return { cwd, env: { ...this.#config.baseEnv, ...this.#env } };
  }
}
