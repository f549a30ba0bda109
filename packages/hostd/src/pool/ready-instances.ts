import { orAbort, reportTo } from '@cloche/node-support';
import type { Logger } from 'pino';
import type { InstanceKey } from '../instance/instance-key.ts';
import type { KindId } from './pool-kind.ts';
import type { PoolMaker } from './pool-maker.ts';

export interface ReadyInstancesDeps {
  maker: Pick<PoolMaker, 'remove' | 'isFresh'>;
  log: Logger;
}

/** Finished instances that no sandbox has claimed. */
export class ReadyInstances {
  readonly #deps: ReadyInstancesDeps;
  /** The instances on offer, oldest first. */
  readonly #ready = new Map<InstanceKey, KindId>();
  /** Instances that are being claimed or removed. */
  readonly #leaving = new Set<InstanceKey>();
  #changed = Promise.withResolvers<void>();

  constructor(deps: ReadyInstancesDeps) {
    this.#deps = deps;
  }

  get size(): number {
    return this.#ready.size;
  }

  /** Returns whether the instance is on offer, being claimed or being removed. */
  owns(key: InstanceKey): boolean {
    return this.#ready.has(key) || this.#leaving.has(key);
  }

  has(id: KindId): boolean {
    return this.#ready.values().some((other) => other === id);
  }

  /** Returns the instances on offer with their kinds, oldest first. */
  entries(): MapIterator<[InstanceKey, KindId]> {
    return this.#ready.entries();
  }

  add(key: InstanceKey, id: KindId): void {
    this.#ready.set(key, id);
    this.#changed.resolve();
    this.#changed = Promise.withResolvers();
  }

  /** Resolves when an instance of that kind is on offer, or when the signal aborts. */
  async added(id: KindId, signal: AbortSignal): Promise<void> {
    while (!this.has(id) && !signal.aborted) await orAbort(this.#changed.promise, signal).catch(() => undefined);
  }

  /** Takes an instance of that kind off the offer until `release`. Removes those that it finds dead or stale. */
  take(id: KindId): InstanceKey | undefined {
    for (const [key, kind] of this.#ready) {
      if (kind !== id) continue;
      if (this.#deps.maker.isFresh(key)) {
        this.#ready.delete(key);
        this.#leaving.add(key);
        return key;
      }
      this.remove(key).catch(reportTo(this.#deps.log));
    }
    return undefined;
  }

  /** Ends the ownership of a taken instance, after its claim. */
  release(key: InstanceKey): void {
    this.#leaving.delete(key);
  }

  /** Takes an instance off the offer and removes it. Never rejects. */
  async remove(key: InstanceKey): Promise<void> {
    const { maker, log } = this.#deps;
    this.#ready.delete(key);
    this.#leaving.add(key);
    try {
      await maker.remove(key);
    } catch (err) {
      // From here on the sweep tries until the instance is removed.
      log.error({ operation: 'retire', instance: key, outcome: 'failed', err });
    } finally {
      this.#leaving.delete(key);
    }
  }

  /** Removes the instances on offer that died or became stale. */
  async removeStale(): Promise<void> {
    const stale = [...this.#ready.keys()].filter((key) => !this.#deps.maker.isFresh(key));
    await Promise.all(stale.map((key) => this.remove(key)));
  }

  /** Removes every instance on offer. */
  async removeAll(): Promise<void> {
    await Promise.all([...this.#ready.keys()].map((key) => this.remove(key)));
  }
}
