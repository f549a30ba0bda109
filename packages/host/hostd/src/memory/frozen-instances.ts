import { setImmediate } from 'node:timers/promises';
import { type SwapDevice, swapDevices } from '@cloche/layout';
import type { Logger } from 'pino';
import { HostdError } from '../base/hostd-error.ts';
import type { Cgroups } from '../cgroups/cgroups.ts';
import type { GroupUsage, HeldMemory } from '../cgroups/group-usage.ts';
import type { InstanceKey } from '../instance/instance-key.ts';
import { reclaimGroup } from './reclaim-group.ts';
import { ReclaimQueue } from './reclaim-queue.ts';

const MEBIBYTE = 1024 * 1024;
/** Longest wait for memory that can be reclaimed. */
const HURRY_MS = 2_000;
/** Least time between two measurements of all frozen instances for metrics. */
const MEASURED_MS = 60_000;
/** Instances measured before other work has its turn; each takes about 50 µs. */
const MEASURED_BEFORE_YIELD = 32;
const NOTHING: HeldMemory = { residentBytes: 0, swappedBytes: 0 };

export interface FrozenInstancesOptions {
  cgroups: Pick<Cgroups, 'freezer' | 'swap'>;
  /** Reads what a whole instance holds. */
  usage: Pick<GroupUsage, 'held'>;
  /** Most bytes of the machine's memory that frozen instances may hold. */
  limitBytes: number;
  /** Time from a freeze to the reclaim of the instance's memory. */
  reclaimMs: number;
  log?: Logger | undefined;
  swap?: () => readonly SwapDevice[];
  reclaim?: typeof reclaimGroup;
}

/** Memory of the machine that frozen instances hold: as it was, and compressed. */
export interface FrozenBytes {
  readonly resident: number;
  readonly compressed: number;
}

/**
 * Freezes and thaws instances, counts the memory that frozen ones hold, and moves it to swap while the machine has some.
 * What is frozen, the kernel knows, so that the next hostd finds it.
 */
export class FrozenInstances {
  readonly #options: FrozenInstancesOptions;
  readonly #held = new Map<InstanceKey, HeldMemory>();
  #measuredAt = Number.NEGATIVE_INFINITY;
  readonly #queue: ReclaimQueue;
  readonly #swap: () => readonly SwapDevice[];

  constructor(options: FrozenInstancesOptions) {
    this.#options = options;
    this.#swap = options.swap ?? swapDevices;
    const { reclaimMs: delayMs, log } = options;
    this.#queue = new ReclaimQueue({ delayMs, log, reclaim: (key, signal) => this.#reclaim(key, signal) });
  }

  /** Takes over the instances of an earlier hostd. */
  open(keys: readonly InstanceKey[]): void {
    const { freezer, swap } = this.#options.cgroups;
    swap.keepInMemory();
    for (const key of keys) {
      if (freezer.isFrozen(key)) this.#note(key);
      else swap.keepInMemory(key);
    }
  }

  /**
   * Resolves when no process of the instance executes. Idempotent.
   *
   * @throws HostdError `freeze_failed`; `no_capacity` if frozen instances would hold too much. The instance goes on.
   */
  async freeze(key: InstanceKey): Promise<void> {
    const { freezer } = this.#options.cgroups;
    if (freezer.isFrozen(key)) return;
    this.#measure(key);
    try {
      await this.#requireRoom(key);
      await freezer.freeze(key);
    } catch (error) {
      this.forget(key);
      throw error;
    }
    this.#note(key);
  }

  /** Lets a frozen instance go on. Idempotent. Its memory comes back from swap as it is used. */
  thaw(key: InstanceKey): void {
    const { freezer, swap } = this.#options.cgroups;
    this.forget(key);
    swap.keepInMemory(key);
    freezer.thaw(key);
  }

  /** Stops what is done to the memory of an instance. Call it before the group is removed. */
  forget(key: InstanceKey): void {
    this.#queue.remove(key);
    this.#held.delete(key);
  }

  /** Whether the instance was frozen here, or found frozen at the start. */
  has(key: InstanceKey): boolean {
    return this.#held.has(key);
  }

  /** Returns the memory that a thaw is expected to take. */
  swappedBytes(key: InstanceKey): number {
    return this.#held.get(key)?.swappedBytes ?? 0;
  }

  /** Reclaims what waits for its turn until `isEnough`, or for two seconds. */
  async hurry(isEnough: () => boolean): Promise<void> {
    if (this.#canReclaim()) await this.#queue.hurry(isEnough, HURRY_MS);
  }

  /** Returns the bytes as of at most a minute ago. */
  async recentBytes(): Promise<FrozenBytes> {
    if (performance.now() - this.#measuredAt > MEASURED_MS) await this.measure();
    return this.bytes;
  }

  /** Returns the bytes by the last measurements. `measure` brings them up to date. */
  get bytes(): FrozenBytes {
    let [resident, swapped] = [0, 0];
    for (const { residentBytes, swappedBytes } of this.#held.values()) {
      resident += residentBytes;
      swapped += swappedBytes;
    }
    return { resident, compressed: Math.round(swapped * memoryOfSwapped(this.#swap())) };
  }

  /** Measures again: the kernel may have moved further memory to swap. */
  async measure(): Promise<void> {
    this.#measuredAt = performance.now();
    let measured = 0;
    for (const key of [...this.#held.keys()]) {
      measured += 1;
      if (measured % MEASURED_BEFORE_YIELD === 0) await setImmediate();
      if (this.#held.has(key)) this.#measure(key);
    }
  }

  /** Resolves when nothing is reclaimed any more. */
  async close(): Promise<void> {
    await this.#queue.close();
  }

  #note(key: InstanceKey): void {
    const { swap } = this.#options.cgroups;
    swap.preferSwap(key);
    this.#measure(key);
    if (swap.canReclaim) this.#queue.add(key);
  }

  #measure(key: InstanceKey): void {
    const held = this.#options.usage.held(key);
    if (held === undefined) this.#held.delete(key);
    else this.#held.set(key, held);
  }

  /** The instance itself is among those that are counted. */
  async #requireRoom(key: InstanceKey): Promise<void> {
    const { limitBytes } = this.#options;
    const excess = () => this.bytes.resident + this.bytes.compressed - limitBytes;
    if (excess() <= 0) return;
    await this.measure();
    if (excess() > 0) await this.hurry(() => excess() <= 0);
    if (excess() <= 0) return;
    const [lacking, most] = [excess(), limitBytes].map((bytes) => Math.ceil(bytes / MEBIBYTE));
    const message = `frozen instances would hold ${lacking} MiB more than ${most} MiB (CLOCHE_PAUSED_MEMORY_MB) with ${key}`;
    throw new HostdError('no_capacity', message);
  }

  #canReclaim(): boolean {
    return this.#options.cgroups.swap.canReclaim && this.#swap().length > 0;
  }

  /** Returns the processor time that it took. Does nothing while the free swap could not take all of it. */
  async #reclaim(key: InstanceKey, signal: AbortSignal): Promise<number> {
    const { cgroups, reclaim = reclaimGroup, log } = this.#options;
    const { residentBytes } = this.#held.get(key) ?? NOTHING;
    const free = this.#swap().reduce((sum, { sizeBytes, usedBytes }) => sum + sizeBytes - usedBytes, 0);
    if (!this.#canReclaim() || residentBytes === 0 || free < residentBytes) return 0;
    const processorMs = await reclaim(cgroups.swap.emptying(key), signal);
    if (this.#held.has(key)) this.#measure(key);
    const after = this.#held.get(key) ?? NOTHING;
    const bytes = residentBytes - after.residentBytes;
    const outcome = signal.aborted ? 'stopped' : 'done';
    log?.debug({ operation: 'reclaim', instance: key, outcome, bytes, processorMs });
    return processorMs;
  }
}

/** Returns the bytes of memory that a swapped byte takes: none on a disk. */
function memoryOfSwapped(devices: readonly SwapDevice[]): number {
  let [used, memory] = [0, 0];
  for (const { usedBytes, memoryBytes = 0 } of devices) {
    used += usedBytes;
    memory += memoryBytes;
  }
  return used === 0 ? 0 : Math.min(1, memory / used);
}
