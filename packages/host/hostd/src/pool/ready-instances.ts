import { orAbort, reportFailure, reportTo } from '@cloche/node-support';
import type { Logger } from 'pino';
import type { InstanceKey } from '../instance/instance-key.ts';
import { type KindId, kindId, type PoolKind } from './pool-kind.ts';
import type { PoolMaker } from './pool-maker.ts';

export interface ReadyInstancesDeps {
  maker: Pick<PoolMaker, 'remove' | 'isFresh' | 'warmed'>;
  log: Logger;
}

/** An instance on offer. */
interface Offer {
  id: KindId;
  /** Whether its first kernel has loaded the warm imports and waits, or no kernel is forked ahead. */
  isWarm: boolean;
}

/** Finished instances that no sandbox has claimed. */
export class ReadyInstances {
  readonly #deps: ReadyInstancesDeps;
  /** The instances on offer, oldest first. */
  readonly #ready = new Map<InstanceKey, Offer>();
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
    return this.#ready.values().some((offer) => offer.id === id);
  }

  /** Returns the instances on offer with their kinds, oldest first. */
  entries(): IteratorObject<readonly [InstanceKey, KindId]> {
    return this.#ready.entries().map(([key, { id }]) => [key, id] as const);
  }

  /** Offers an instance from now on, although it may not be warm yet. */
  add(key: InstanceKey, kind: PoolKind): void {
    const offer = { id: kindId(kind), isWarm: false };
    this.#ready.set(key, offer);
    this.#noteChange();
    const warmed = this.#deps.maker.warmed(key, kind).then(() => {
      offer.isWarm = true;
      this.#noteChange();
    });
    warmed.catch(reportFailure);
  }

  /** Resolves when an instance of that kind is on offer, with `isWarm` a warm one, or when the signal aborts. */
  async added(id: KindId, isWarm: boolean, signal: AbortSignal): Promise<void> {
    const isThere = () => this.#ready.values().some((offer) => offer.id === id && (offer.isWarm || !isWarm));
    while (!isThere() && !signal.aborted) await orAbort(this.#changed.promise, signal).catch(() => undefined);
  }

  /**
   * Reserves an instance of that kind until `release`; a warm one is preferred. Removes dead and stale instances on the
   * way.
   */
  take(id: KindId): InstanceKey | undefined {
    const offers = [...this.#ready].filter(([, offer]) => offer.id === id);
    for (const [key] of offers.sort(([, one], [, other]) => Number(other.isWarm) - Number(one.isWarm))) {
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

  #noteChange(): void {
    this.#changed.resolve();
    this.#changed = Promise.withResolvers();
  }
}
