import type { Language } from '@cloche/protocol';
import type { AgentConfig } from './config.ts';
import type { ContextKernel } from './context.ts';
import type { ForkedKernels } from './forked-kernels.ts';
import { freeMemory } from './free-memory.ts';
import { kernelCommand } from './kernel-launch.ts';
import type { KernelListener } from './kernel-listener.ts';
import { KernelProcess } from './kernel-process.ts';
import { KernelsGroup } from './kernels-group.ts';
import { NOBODY, SpareKernels } from './spare-kernels.ts';
import type { KernelPlace } from './start-kernel.ts';

/** With less to spare, a kernel that nobody has asked for would be missed by what runs there. */
const ROOM_BYTES = 512 * 1024 * 1024;

/** A kernel that has its place and that nobody has taken by then is rehearsed: until then somebody may be about to. */
const REHEARSE_MS = 50;

interface LaunchOptions {
  forkedKernelMs: number;
  room?: Promise<void> | undefined;
}

/** What contexts need of where their kernels come from. */
export interface KernelSource extends Pick<KernelSupply, 'environment' | 'restock' | 'close' | 'giveUpForkedKernel'> {
  launch(...asked: Parameters<KernelSupply['launch']>): ContextKernel;
}

/**
 * Where contexts get their kernels. Once a context was opened in a language whose kernels are started in here, another
 * kernel of the kind is started ahead: whoever opens a second context often opens a third.
 */
export class KernelSupply {
  readonly #config: AgentConfig;
  readonly #forkedKernels: ForkedKernels;
  readonly #group: KernelsGroup;
  readonly #spares: SpareKernels;
  /** Told of a kernel that was forked in and that nobody has taken for a moment. */
  onWaiting: (kernel: KernelProcess) => void = () => undefined;
  #env: Readonly<Record<string, string>> = {};

  constructor(config: AgentConfig, forkedKernels: ForkedKernels) {
    this.#config = config;
    this.#forkedKernels = forkedKernels;
    this.#group = new KernelsGroup(config.kernelsGroupFds);
    const hasRoom = () => freeMemory() > ROOM_BYTES && !this.#group.isCrowded();
    this.#spares = new SpareKernels((language, listener) => this.#startAhead(language, listener), hasRoom);
    forkedKernels.onSpare = () => this.#adoptSpare();
  }

  /** Variables of the client's, for kernels started from now on. */
  set environment(env: Readonly<Record<string, string>>) {
    this.#env = { ...env };
    const place = this.#placeIn(this.#config.workspace);
    for (const language of this.#spares.moveAll((kernel) => kernel.move(place))) this.restock(language);
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
    // What is ready for the workspace stays for a context in the workspace, unless it can move.
    const fits = (kernel: KernelProcess) => cwd === this.#config.workspace || kernel.move(this.#placeIn(cwd));
    const spare = this.#spares.take(language, fits);
    if (spare === undefined) return this.#start(language, cwd, listener, { forkedKernelMs, room });
    spare.handTo(listener);
    return spare;
  }

  /** To be called when a context was opened. Idempotent. */
  restock(language: Language): void {
    if (!this.#areForked(language)) this.#spares.restock(language);
  }

  /** No forked kernel comes for a context that waits for one. */
  giveUpForkedKernel(): void {
    this.#forkedKernels.giveUp();
  }

  /** Resolves when no spare is left. */
  close(): Promise<void> {
    return this.#spares.close();
  }

  #startAhead(language: Language, listener: KernelListener): KernelProcess {
    return this.#start(language, this.#config.workspace, listener, { forkedKernelMs: 0 });
  }

  /** One that was forked in ahead has its place at once, so that whoever opens the next context finds it ready. */
  #adoptSpare(): void {
    if (this.#spares.has('python')) return;
    let wasReady = false;
    const ready = () => {
      if (!wasReady) setTimeout(() => this.#spares.holds(kernel) && this.onWaiting(kernel), REHEARSE_MS);
      wasReady = true;
    };
    const kernel = this.#startAhead('python', { ...NOBODY, ready });
    this.#spares.keep('python', kernel);
  }

  #areForked(language: Language): boolean {
    return language === 'python' && this.#config.kernelsFolder !== undefined;
  }

  #start(
    language: Language,
    cwd: string,
    listener: KernelListener,
    { forkedKernelMs, room }: LaunchOptions,
  ): KernelProcess {
    const { uid, gid } = this.#config;
    const command = kernelCommand(language, this.#config);
    const place = this.#placeIn(cwd);
    const takeForked = async () => {
      await room;
      return language === 'python' ? this.#forkedKernels.take(forkedKernelMs) : undefined;
    };
    return new KernelProcess({ command, place, uid, gid, group: this.#group, takeForked }, listener);
  }

  #placeIn(cwd: string): KernelPlace {
    return { cwd, env: { ...this.#config.baseEnv, ...this.#env } };
  }
}
