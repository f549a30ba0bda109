import type { Logger } from 'pino';
import { type InstanceKey, pooledInstanceKey } from '../instance/instance-key.ts';
import type { Demand } from './demand.ts';
import { type KindId, kindId, type PoolKind } from './pool-kind.ts';

/** Longest time for a launch until its agent answers. */
const LAUNCH_MS = 30_000;
/** Longest wait for an instance that is being launched; after that it may never become ready. */
const COMING_MS = 500;
/** Launches ahead start after this long without a claim, so that they take no time from a burst of claims. */
const QUIET_MS = 25;
/** Longest time that launches ahead wait, however many claims follow. */
const PATIENCE_MS = 250;
const NEVER = { first: Number.NEGATIVE_INFINITY, last: Number.NEGATIVE_INFINITY };
const FIRST_PAUSE_MS = 1000;
const LONGEST_PAUSE_MS = 60_000;
/** Surplus over its share from which a kind gives up an instance for another kind. */
const TOLERATED_SURPLUS = 0.25;

/** Creates and removes the instances of a pool. */
export interface PoolMaker {
  /** Launches an instance and resolves when its agent answers. Leaves nothing behind when it rejects. */
  launch(key: InstanceKey, kind: PoolKind, signal: AbortSignal): Promise<void>;
  /** Removes an instance. Idempotent. */
  remove(key: InstanceKey): Promise<void>;
  /** Returns whether a launched instance can still be claimed: it lives, and equals one that would be launched now. */
  isFresh(key: InstanceKey): boolean;
  hasMemoryToSpare(): boolean;
}

export interface WarmPoolOptions {
  /** Instances to keep ready, of all kinds together; 0 disables the pool. */
  size: number;
  /** Launches ahead at a time, at most, while requested kinds are missing. */
  lanes: number;
  demand: Demand;
  maker: PoolMaker;
  log: Logger;
}

export interface PoolState {
  size: number;
  ready: number;
  hits: number;
  misses: number;
}

/** Next action of the pool. `isMissing`: the step is for a kind that was just requested and of which none is ready. */
type Step = { isMissing: boolean } & ({ launch: PoolKind } | { retire: InstanceKey });

/** An instance that is being launched ahead. */
interface Coming {
  id: KindId;
  isAwaited: boolean;
  ended: PromiseWithResolvers<void>;
}

/**
 * Instances launched ahead of demand. Each is claimed once, by one sandbox. They are launched one after another, while
 * no requested launch runs: requested launches come first. If a kind is requested while none is ready, several of it
 * are launched at once, so that the next requests can wait for one of them.
 */
export class WarmPool {
  readonly #options: WarmPoolOptions;
  readonly #ready = new Map<InstanceKey, KindId>();
  /** Instances that the pool owns but does not offer: under launch, being claimed, or being removed. */
  readonly #busy = new Set<InstanceKey>();
  readonly #closing = new AbortController();
  readonly #pauses = new Map<KindId, { until: number; ms: number }>();
  /** Launches ahead under way, oldest first. */
  readonly #coming = new Map<Coming, Promise<void>>();
  #changed = Promise.withResolvers<void>();
  /** Resolves when a claim takes the last instance of a kind, or finds none. */
  #emptied = Promise.withResolvers<void>();
  #foreground = 0;
  #heldSince = 0;
  /** Times of the first and the last claim since the last launch ahead. */
  #taken = NEVER;
  #hits = 0;
  #misses = 0;
  #refilled: Promise<void> = Promise.resolve();

  constructor(options: WarmPoolOptions) {
    this.#options = options;
  }

  /** Starts launching ahead. */
  open(): void {
    if (this.#options.size > 0) this.#refilled = this.#refill(this.#closing.signal);
  }

  /** Ends the launches under way and removes all unclaimed instances. */
  async close(): Promise<void> {
    this.#closing.abort(new Error('the pool is closing'));
    await this.#refilled;
    await Promise.all([...this.#ready.keys()].map((key) => this.#retire(key)));
  }

  /**
   * Calls `claim` with an instance of that kind, if there is one, and resolves with its result. Until then the instance
   * belongs to the pool, so that a sweep does not remove it. If no instance is ready, the method waits for one under
   * launch that no other caller waits for: it is ready before a new one. The demand is noted in any case.
   */
  async take<T>(kind: PoolKind, signal: AbortSignal, claim: (key: InstanceKey) => Promise<T>): Promise<T | undefined> {
    if (this.#options.size === 0) return undefined;
    const id = kindId(kind);
    this.#options.demand.note(kind);
    const key = this.#takeReady(id) ?? ((await this.#comes(id, signal)) ? this.#takeReady(id) : undefined);
    if (key === undefined) this.#misses += 1;
    else {
      this.#hits += 1;
      const now = performance.now();
      this.#taken = { first: this.#taken === NEVER ? now : this.#taken.first, last: now };
    }
    if (!this.#isReady(id)) {
      this.#emptied.resolve();
      this.#emptied = Promise.withResolvers();
    }
    this.#wake();
    if (key === undefined) return undefined;
    try {
      return await claim(key);
    } finally {
      this.#busy.delete(key);
    }
  }

  /** Suspends launches ahead until the result is disposed, but not for longer than `PATIENCE_MS`. */
  holdBack(): Disposable {
    if (this.#foreground === 0) this.#heldSince = performance.now();
    this.#foreground += 1;
    return {
      [Symbol.dispose]: () => {
        this.#foreground -= 1;
        this.#wake();
      },
    };
  }

  /** Returns whether the pool owns that instance. */
  owns(key: InstanceKey): boolean {
    return this.#ready.has(key) || this.#busy.has(key);
  }

  state(): PoolState {
    return { size: this.#options.size, ready: this.#ready.size, hits: this.#hits, misses: this.#misses };
  }

  /** Removes the instances that died or became stale, or all of them when memory is short. */
  async refresh(): Promise<void> {
    const { maker } = this.#options;
    const keeps = this.#ready.size === 0 || maker.hasMemoryToSpare();
    const stale = [...this.#ready.keys()].filter((key) => !keeps || !maker.isFresh(key));
    await Promise.all(stale.map((key) => this.#retire(key)));
    this.#wake();
  }

  #isReady(id: KindId): boolean {
    return this.#ready.values().some((other) => other === id);
  }

  #takeReady(id: KindId): InstanceKey | undefined {
    for (const [key, kind] of this.#ready) {
      if (kind !== id) continue;
      if (this.#options.maker.isFresh(key)) {
        this.#ready.delete(key);
        this.#busy.add(key);
        return key;
      }
      void this.#retire(key);
    }
    return undefined;
  }

  /** Waits for an instance of that kind under launch that no other caller waits for. Returns whether there was one. */
  async #comes(id: KindId, signal: AbortSignal): Promise<boolean> {
    const coming = [...this.#coming.keys()].find((one) => one.id === id && !one.isAwaited);
    if (coming === undefined) return false;
    coming.isAwaited = true;
    await orAborted(coming.ended.promise, signal, COMING_MS);
    coming.isAwaited = false;
    return !signal.aborted;
  }

  async #refill(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      const changed = this.#changed.promise;
      const step = this.#nextStep();
      if (step === undefined) await orAborted(changed, signal);
      else if (this.#foreground > 0 && !this.#isOverdue()) await orAborted(changed, signal, PATIENCE_MS);
      else if (!step.isMissing && this.#quietInMs() > 0) {
        await orAborted(this.#emptied.promise, signal, this.#quietInMs());
      } else if ('retire' in step) await this.#retire(step.retire);
      else this.#launch(step.launch, signal);
    }
    await Promise.all(this.#coming.values());
  }

  /**
   * Returns the next step: launch the kind with the least of its share, so that each kind has an instance soon, or
   * remove an instance that has to make room for it.
   */
  #nextStep(): Step | undefined {
    const { size, lanes, demand, maker } = this.#options;
    if (this.#coming.size >= lanes) return undefined;
    const ready = countsOf(this.#ready.values());
    const coming = countsOf([...this.#coming.keys()].map(({ id }) => id));
    const shares = demand.shares(size);
    const now = performance.now();
    const [poorest] = [...shares]
      .map(([id, { kind, share }]) => {
        const isMissing = !ready.has(id) && demand.isPressing(id);
        return { id, kind, isMissing, part: ((ready.get(id) ?? 0) + (coming.get(id) ?? 0)) / share };
      })
      .filter(({ isMissing }) => isMissing || coming.size === 0)
      .filter(({ id, part }) => part < 1 && (this.#pauses.get(id)?.until ?? 0) <= now)
      .sort((one, other) => one.part - other.part);
    if (poorest === undefined || !maker.hasMemoryToSpare()) return undefined;
    const { kind: launch, isMissing } = poorest;
    if (this.#ready.size + this.#coming.size < size) return { launch, isMissing };

    const richest = [...this.#ready].find(([, id]) => {
      const share = shares.get(id)?.share ?? 0;
      return (ready.get(id) ?? 0) > share * (1 + TOLERATED_SURPLUS);
    });
    return richest && { retire: richest[0], isMissing };
  }

  /**
   * Returns whether requested launches have suspended the pool for too long. While it is empty, every request needs a
   * launch of its own, so the suspension would never end.
   */
  #isOverdue(): boolean {
    return performance.now() - this.#heldSince > PATIENCE_MS;
  }

  #quietInMs(): number {
    const { last, first } = this.#taken;
    return Math.min(last + QUIET_MS, first + PATIENCE_MS) - performance.now();
  }

  #launch(kind: PoolKind, closing: AbortSignal): void {
    const coming = { id: kindId(kind), isAwaited: false, ended: Promise.withResolvers<void>() };
    const launched = this.#launchOne(coming.id, kind, closing).finally(() => {
      this.#coming.delete(coming);
      this.#taken = NEVER;
      coming.ended.resolve();
      this.#wake();
    });
    this.#coming.set(coming, launched);
  }

  async #launchOne(id: KindId, kind: PoolKind, closing: AbortSignal): Promise<void> {
    const { maker, log } = this.#options;
    const key = pooledInstanceKey();
    this.#busy.add(key);
    try {
      await maker.launch(key, kind, AbortSignal.any([closing, AbortSignal.timeout(LAUNCH_MS)]));
      this.#ready.set(key, id);
      this.#pauses.delete(id);
    } catch (err) {
      if (closing.aborted) return;
      const ms = Math.min((this.#pauses.get(id)?.ms ?? FIRST_PAUSE_MS / 2) * 2, LONGEST_PAUSE_MS);
      this.#pauses.set(id, { until: performance.now() + ms, ms });
      log.warn({ operation: 'launch ahead', outcome: 'failed', kind: id, retryInMs: ms, err });
    } finally {
      this.#busy.delete(key);
    }
  }

  async #retire(key: InstanceKey): Promise<void> {
    this.#ready.delete(key);
    this.#busy.add(key);
    try {
      await this.#options.maker.remove(key);
    } catch (err) {
      // From here on the sweep tries until the instance is removed.
      this.#options.log.error({ operation: 'retire', instance: key, outcome: 'failed', err });
    } finally {
      this.#busy.delete(key);
    }
  }

  #wake(): void {
    this.#changed.resolve();
    this.#changed = Promise.withResolvers();
  }
}

function countsOf(ids: Iterable<KindId>): Map<KindId, number> {
  const counts = new Map<KindId, number>();
  for (const id of ids) counts.set(id, (counts.get(id) ?? 0) + 1);
  return counts;
}

/** Resolves with `promise`, when the signal aborts, or after `ms`. */
async function orAborted(promise: Promise<void>, signal: AbortSignal, ms?: number): Promise<void> {
  const aborted = Promise.withResolvers<void>();
  const abort = () => aborted.resolve();
  signal.addEventListener('abort', abort, { once: true });
  if (signal.aborted) abort();
  const timer = ms === undefined ? undefined : setTimeout(abort, ms);
  await Promise.race([promise, aborted.promise]);
  clearTimeout(timer);
  signal.removeEventListener('abort', abort);
}
