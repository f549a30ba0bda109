import type { Logger } from 'pino';
import type { InstanceKey } from '../instance/instance-key.ts';
import type { Demand } from './demand.ts';
import { kindId, type PoolKind } from './pool-kind.ts';
import type { PoolMaker } from './pool-maker.ts';
import { ReadyInstances } from './ready-instances.ts';
import { Refill, type RefillOptions } from './refill.ts';

export interface WarmPoolOptions {
  /** Places for instances to keep ready, of all kinds together; 0 disables the pool. Most instances take one. */
  size: number;
  /** Instances made at a time, at most, while requested kinds are missing. */
  parallelLaunches: number;
  demand: Demand;
  maker: PoolMaker;
  log: Logger;
  making?: RefillOptions['making'];
}

export interface PoolState {
  size: number;
  ready: number;
  hits: number;
  misses: number;
}

/**
 * Holds finished instances ahead of demand. Each is claimed once, by one sandbox. A refill replaces what was claimed.
 */
export class WarmPool {
  readonly #size: number;
  readonly #demand: Demand;
  readonly #maker: PoolMaker;
  readonly #ready: ReadyInstances;
  readonly #refill: Refill;
  #hits = 0;
  #misses = 0;

  constructor({ size, parallelLaunches, demand, maker, log, making }: WarmPoolOptions) {
    this.#size = size;
    this.#demand = demand;
    this.#maker = maker;
    this.#ready = new ReadyInstances({ maker, log });
    this.#refill = new Refill({
      size,
      parallelLaunches,
      demand,
      ready: this.#ready,
      maker,
      log,
      ...(making && { making }),
    });
  }

  /** Starts to fill the pool. */
  open(): void {
    if (this.#size > 0) this.#refill.open();
  }

  /** Ends the launches under way and removes all unclaimed instances. */
  async close(): Promise<void> {
    await this.#refill.close();
    await this.#ready.removeAll();
  }

  /**
   * Calls `claim` with an instance of that kind, if there is one, and resolves with its result. Until then the instance
   * belongs to the pool, so that a sweep does not remove it. If no instance is ready, the method waits for one under
   * launch that no other caller waits for: it is ready before a new one. The demand is noted in any case.
   */
  async take<T>(
    kind: PoolKind,
    signal: AbortSignal,
    claim: (key: InstanceKey) => Promise<T>,
    requester?: string,
  ): Promise<T | undefined> {
    if (this.#size === 0) return undefined;
    const id = kindId(kind);
    this.#demand.note(kind, requester);
    const key = this.#ready.take(id) ?? ((await this.#refill.next(id, signal)) ? this.#ready.take(id) : undefined);
    this.#refill.recordRequest(id, { isHit: key !== undefined });
    if (key === undefined) {
      this.#misses += 1;
      return undefined;
    }
    this.#hits += 1;
    try {
      return await claim(key);
    } finally {
      this.#ready.release(key);
    }
  }

  /**
   * Launches an instance of that kind ahead, because sandboxes of it are expected, and resolves when one is ready, with
   * `isWarm` when one is warm. Resolves also when the pool has no place for it, or when the signal aborts.
   */
  async expect(kind: PoolKind, isWarm: boolean, signal: AbortSignal): Promise<void> {
    if (this.#size === 0) return;
    const id = kindId(kind);
    this.#demand.expect(kind);
    const hasPlace = this.#demand.shares(this.#size, (versionId) => this.#maker.placesOf(versionId)).has(id);
    if (!hasPlace || !this.#maker.hasMemoryToSpare()) return;
    this.#refill.recordRequest(id, { isHit: false });
    await this.#ready.added(id, isWarm, signal);
  }

  /**
   * Pauses refills for 250 ms because the claiming sandbox will use the processors at once. Kinds with a waiting request
   * still refill.
   */
  noteBusyClaim(): void {
    this.#refill.noteBusyClaim();
  }

  /**
   * Suspends the refill until the result is disposed, but not for longer than 250 ms: requested launches come first.
   */
  pauseRefill(): Disposable {
    return this.#refill.pauseRefill();
  }

  /**
   * Returns whether the pool owns that instance: finished and unclaimed, being made, being claimed or being removed.
   */
  owns(key: InstanceKey): boolean {
    return this.#ready.owns(key) || this.#refill.owns(key);
  }

  state(): PoolState {
    return { size: this.#size, ready: this.#ready.size, hits: this.#hits, misses: this.#misses };
  }

  /** Removes what is ready, so that sandboxes get its memory. The refill goes on when there is memory to spare. */
  async giveUp(): Promise<void> {
    await this.#ready.removeAll();
  }

  /** Removes the instances that died or became stale, or all of them when memory is short. */
  async refresh(): Promise<void> {
    if (this.#ready.size === 0 || this.#maker.hasMemoryToSpare()) await this.#ready.removeStale();
    else await this.#ready.removeAll();
    this.#maker.measure();
    this.#refill.wake();
  }
}
