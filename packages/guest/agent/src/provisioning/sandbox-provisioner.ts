import type { Language } from '@cloche/protocol';
import { ensureWorkspace, isWithin, requireContextFolder, type WorkspaceOptions } from '../base/workspace-folder.ts';
import type { AgentConfig } from '../config.ts';
import type { KernelListener } from '../kernels/kernel-listener.ts';
import type { KernelProcess } from '../kernels/kernel-process.ts';
import type { KernelSettings } from '../kernels/start-kernel.ts';
import { freeMemory } from '../memory/free-memory.ts';
import type { KernelsGroup } from '../processes/kernels-group.ts';
import { ForkProvisioner } from './fork-provisioner.ts';
import { HostZygote } from './host-zygote.ts';
import type { KernelArrivals } from './kernel-arrivals.ts';
import type { KernelProvisioner, KernelRequest } from './kernel-provisioner.ts';
import { SandboxZygote } from './sandbox-zygote.ts';
import { NO_LISTENER, SpareProvisioner } from './spare-provisioner.ts';
import { SpawnProvisioner } from './spawn-provisioner.ts';
import type { Zygote } from './zygote.ts';

/** Free memory below which no kernel is started ahead, because the client's programs need it. */
const ROOM_BYTES = 512 * 1024 * 1024;

/** Time that a forked kernel waits for a context before it is warmed up, because a context may be about to take it. */
const WARM_UP_AFTER_MS = 50;

/**
 * Chooses the source of each kernel: a spare, else a fork from a zygote, else a new process. After the first context in
 * a language whose kernels are new processes, another kernel is started ahead, because a client that opens a second
 * context often opens a third.
 */
export class SandboxProvisioner implements KernelProvisioner {
  readonly #options: WorkspaceOptions;
  /** Identifies the folder in which the spares are. */
  #spareFolder: string | undefined;
  readonly #baseEnv: Readonly<Record<string, string>>;
  readonly #spawn: SpawnProvisioner;
  readonly #new: SpawnProvisioner | ForkProvisioner;
  readonly #spares: SpareProvisioner;
  /** Undefined where each kernel is a new process. */
  readonly #zygote: Zygote | undefined;
  /** Resolved when a first kernel waits or is requested, or when none will be forked ahead. */
  readonly #warmed = Promise.withResolvers<void>();
  #env: Readonly<Record<string, string>> = {};
  /**
   * Called with a forked kernel that no context has taken for a while. `isWaiting` returns whether that is still so.
   */
  onWaiting: (kernel: KernelProcess, isWaiting: () => boolean) => void = () => undefined;

  constructor(config: AgentConfig, arrivals: KernelArrivals, group: KernelsGroup) {
    const hasRoom = () => freeMemory() > ROOM_BYTES && !group.isCrowded();
    this.#options = config;
    this.#baseEnv = config.baseEnv;
    this.#findWorkspaceForSpares();
    this.#spares = new SpareProvisioner((language, listener) => this.#provisionAhead(language, listener), hasRoom);
    this.#zygote = this.#openZygote(config, arrivals, group, hasRoom);
    this.#spawn = new SpawnProvisioner(config, group, (busy) => this.#zygote?.noteBusy(busy));
    this.#new = this.#zygote ? new ForkProvisioner(this.#zygote, this.#spawn) : this.#spawn;
    arrivals.onSpare = () => this.#adoptSpare();
  }

  set environment(env: Readonly<Record<string, string>>) {
    this.#env = { ...env };
    this.#moveSpares();
  }

  get environment(): Readonly<Record<string, string>> {
    return this.#env;
  }

  provision(language: Language, { cwd, listener, ...request }: KernelRequest): KernelProcess {
    const { workspace } = this.#options;
    if (isWithin(cwd, workspace)) this.#findWorkspace();
    requireContextFolder(cwd);
    const place = this.#placeIn(cwd);
    this.#warmed.resolve();
    // A spare that cannot move is kept for a context in the workspace.
    const fits = (kernel: KernelProcess) => cwd === workspace || kernel.move(place);
    this.#zygote?.recordRequest();
    const spare = this.#spares.provision(language, fits);
    if (spare === undefined) return this.#new.provision(language, { ...request, place, listener });
    spare.handTo(listener);
    return spare;
  }

  hasProcessesFor(language: Language): boolean {
    return this.#spawn.hasProcessesFor(language);
  }

  countRefusals(): number {
    return this.#spawn.countRefusals();
  }

  /** Whether a kernel of that language waits for a context. */
  hasSpare(language: Language): boolean {
    return this.#spares.has(language);
  }

  recordUse(language: Language): void {
    this.#zygote?.recordUse(language);
    if (language === 'python' && this.#zygote?.isComing) return;
    this.#spares.restock(language);
  }

  /**
   * Starts a spare of a language that other sandboxes use. Unlike `recordUse`, it does not count as use in this sandbox.
   */
  prepare(language: Language): void {
    this.#spares.restock(language);
  }

  /**
   * Loads the zygote of the sandbox without a delay, if it has its own. Resolves when its first kernel waits for a
   * context, or when there is nothing to wait for.
   */
  async warm(): Promise<void> {
    if (this.#zygote?.loadNow()) await this.#warmed.promise;
  }

  /** Frees memory that only improves speed. Returns whether there was any. */
  release(): boolean {
    const released = this.#zygote?.release() ?? false;
    // The spare shares memory with the zygote. That memory is freed only when both have ended.
    if (released) this.#spares.giveUp('python');
    return released;
  }

  /** Call when the host has no kernel for the context that has waited longest. */
  giveUpHostKernel(): void {
    this.#zygote?.giveUp();
  }

  async close(): Promise<void> {
    await Promise.all([this.#spares.close(), this.#zygote?.close()]);
  }

  #openZygote(
    config: AgentConfig,
    arrivals: KernelArrivals,
    group: KernelsGroup,
    hasRoom: () => boolean,
  ): Zygote | undefined {
    const { kernelsFolder, hasOwnZygote } = config;
    if (kernelsFolder === undefined) return undefined;
    if (!hasOwnZygote) return new HostZygote(arrivals);
    const own = new SandboxZygote({ ...config, kernelsFolder }, arrivals, {
      hasRoom,
      group,
      onReady: () => (hasRoom() ? this.#adoptSpare() : this.#warmed.resolve()),
      onMissing: () => this.#warmed.resolve(),
      onUnwanted: () => this.#spares.giveUp('python'),
    });
    own.startAfterLaunch();
    return own;
  }

  #provisionAhead(language: Language, listener: KernelListener): KernelProcess {
    return this.#new.provision(language, { place: this.#placeIn(this.#options.workspace), listener, kernelWaitMs: 0 });
  }

  /** Assigns a kernel that was forked ahead to the workspace at once, so that the next context finds it ready. */
  #adoptSpare(): void {
    if (this.#spares.has('python')) return;
    let wasReady = false;
    const isWaiting = () => this.#spares.holds(kernel);
    const ready = () => {
      if (!wasReady) setTimeout(() => isWaiting() && this.onWaiting(kernel, isWaiting), WARM_UP_AFTER_MS);
      wasReady = true;
      this.#warmed.resolve();
    };
    const kernel = this.#provisionAhead('python', { ...NO_LISTENER, ready, exited: () => this.#warmed.resolve() });
    this.#spares.keep('python', kernel);
  }

  /** Moves the spares to the workspace if they are in a folder that root of the sandbox has replaced. */
  #findWorkspace(): void {
    const folder = ensureWorkspace(this.#options);
    const isReplaced = this.#spareFolder !== undefined && this.#spareFolder !== folder;
    this.#spareFolder = folder;
    if (isReplaced) this.#moveSpares();
  }

  /** Does nothing where the workspace is unusable: the first request that needs it says so. */
  #findWorkspaceForSpares(): void {
    try {
      this.#findWorkspace();
    } catch {
      // Reported by `provision`.
    }
  }

  #moveSpares(): void {
    const place = this.#placeIn(this.#options.workspace);
    for (const language of this.#spares.moveAll((kernel) => kernel.move(place))) this.recordUse(language);
  }

  #placeIn(cwd: string): KernelSettings {
    return { cwd, env: { ...this.#baseEnv, ...this.#env } };
  }
}
