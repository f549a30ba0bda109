import type { Language } from '@cloche/protocol';
import { NO_PROCESS_LEFT } from '../base/agent-error.ts';
import type { AgentConfig } from '../config.ts';
import { freeMemory } from '../memory/free-memory.ts';
import { KernelsGroup } from '../processes/kernels-group.ts';
import type { ForkedKernels } from './forked-kernels.ts';
import { kernelCommand } from './kernel-launch.ts';
import type { KernelListener } from './kernel-listener.ts';
import { KernelProcess } from './kernel-process.ts';
import { OwnZygote } from './own-zygote.ts';
import { NOBODY, SpareKernels } from './spare-kernels.ts';
import type { KernelPlace } from './start-kernel.ts';

/** With less to spare, a kernel that nobody has asked for would be missed by what runs there. */
const ROOM_BYTES = 512 * 1024 * 1024;

/** Until then whoever launched the sandbox is likely to ask for something, or to launch another one, which comes first. */
const UNASKED_MS = 3_000;

/** So long after a context of another language was opened, who has opened none of Python will hardly do so. */
const UNWANTED_MS = 180_000;

/** Processes and threads that a kernel has when it is ready, and a few for its first run. */
const TASKS_OF_KERNEL: Readonly<Record<Language, number>> = { python: 4, javascript: 10, typescript: 10 };

/** A kernel that has its place and that nobody has taken by then is rehearsed: until then somebody may be about to. */
const REHEARSE_MS = 50;

interface LaunchOptions {
  forkedKernelMs: number;
  room?: Promise<void> | undefined;
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
  /** Undefined where kernels come from outside, or are all started. */
  readonly #zygote: OwnZygote | undefined;
  #unwanted: NodeJS.Timeout | undefined;
  #isPythonUsed = false;
  /** Told of a kernel that was forked in and that nobody has taken for a moment; `isWaiting` says whether that is still so. */
  onWaiting: (kernel: KernelProcess, isWaiting: () => boolean) => void = () => undefined;
  #env: Readonly<Record<string, string>> = {};

  constructor(config: AgentConfig, forkedKernels: ForkedKernels) {
    this.#config = config;
    this.#forkedKernels = forkedKernels;
    this.#group = new KernelsGroup(config.kernelsGroupFds);
    const hasRoom = () => freeMemory() > ROOM_BYTES && !this.#group.isCrowded();
    this.#spares = new SpareKernels((language, listener) => this.#startAhead(language, listener), hasRoom);
    forkedKernels.onSpare = () => this.#adoptSpare();
    const { kernelsFolder, hasOwnZygote } = config;
    if (kernelsFolder === undefined || !hasOwnZygote) return;
    this.#zygote = new OwnZygote({ ...config, kernelsFolder }, forkedKernels, hasRoom);
    this.#zygote.onReady = () => hasRoom() && this.#adoptSpare();
    this.#zygote.startSoon(UNASKED_MS);
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
    if (!this.#isPythonUsed) this.#zygote?.postpone();
    const spare = this.#spares.take(language, fits);
    if (spare === undefined) return this.#start(language, cwd, listener, { forkedKernelMs, room });
    spare.handTo(listener);
    return spare;
  }

  /** Whether the sandbox has processes left for a kernel of that language. */
  hasProcessesFor(language: Language): boolean {
    return this.#group.hasRoomFor(TASKS_OF_KERNEL[language]);
  }

  /** Whether a kernel of that language waits for its context. */
  hasSpare(language: Language): boolean {
    return this.#spares.has(language);
  }

  /** To be called when a context was opened. Idempotent. */
  restock(language: Language): void {
    this.#noteUse(language);
    if (language === 'python' && (this.#comeFromOutside || this.#zygote?.isComing)) return;
    this.#spares.restock(language);
  }

  /**
   * Starts a spare kernel of a language that other sandboxes use. Unlike `restock`, it notes no use in this sandbox.
   */
  prepare(language: Language): void {
    this.#spares.restock(language);
  }

  /** Gives back memory that only makes things quicker. Whether there was some. */
  release(): boolean {
    const released = this.#zygote?.release() ?? false;
    // What was forked from it keeps what both have.
    if (released) this.#spares.giveUp('python');
    return released;
  }

  /** No forked kernel comes for a context that waits for one. */
  giveUpForkedKernel(): void {
    if (this.#zygote === undefined) this.#forkedKernels.giveUp();
  }

  /** Resolves when no spare is left. */
  async close(): Promise<void> {
    clearTimeout(this.#unwanted);
    await Promise.all([this.#spares.close(), this.#zygote?.close()]);
  }

  /** A cell that is run for somebody gets the processor before a zygote that is loading. */
  #yieldTo(busy: boolean): void {
    if (busy) this.#zygote?.postpone();
    else if (this.#isPythonUsed) this.#zygote?.startSoon();
  }

  /** What a sandbox never uses it need not hold. */
  #noteUse(language: Language): void {
    if (this.#zygote === undefined) return;
    if (language === 'python') {
      clearTimeout(this.#unwanted);
      this.#unwanted = undefined;
      this.#isPythonUsed = true;
      this.#zygote.startSoon();
    } else if (!this.#isPythonUsed) {
      this.#unwanted ??= setTimeout(() => {
        void this.#zygote?.close();
        this.#spares.giveUp('python');
      }, UNWANTED_MS).unref();
    }
  }

  #startAhead(language: Language, listener: KernelListener): KernelProcess {
    return this.#start(language, this.#config.workspace, listener, { forkedKernelMs: 0 });
  }

  /** One that was forked in ahead has its place at once, so that whoever opens the next context finds it ready. */
  #adoptSpare(): void {
    if (this.#spares.has('python')) return;
    let wasReady = false;
    const isWaiting = () => this.#spares.holds(kernel);
    const ready = () => {
      if (!wasReady) setTimeout(() => isWaiting() && this.onWaiting(kernel, isWaiting), REHEARSE_MS);
      wasReady = true;
    };
    const kernel = this.#startAhead('python', { ...NOBODY, ready });
    this.#spares.keep('python', kernel);
  }

  get #comeFromOutside(): boolean {
    return this.#config.kernelsFolder !== undefined && this.#zygote === undefined;
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
      // One that is started all the same dies in its first run, or holds up what has the processes.
      if (!this.hasProcessesFor(language)) throw new Error(NO_PROCESS_LEFT);
      if (language !== 'python') return undefined;
      return this.#zygote ? this.#zygote.take() : this.#forkedKernels.take(forkedKernelMs);
    };
    // Neither would the next one be: each costs what it takes to fork it.
    const onUnfit = () => void this.#zygote?.close();
    const onBusy = (busy: boolean) => this.#yieldTo(busy);
    return new KernelProcess({ command, place, uid, gid, group: this.#group, takeForked, onUnfit, onBusy }, listener);
  }

  #placeIn(cwd: string): KernelPlace {
    return { cwd, env: { ...this.#config.baseEnv, ...this.#env } };
  }
}
