import { BackOff, Deadline, reportFailure, untilIdle } from '@cloche/node-support';
import type { Logger } from 'pino';
import { type InstanceKey, pooledInstanceKey } from '../instance/instance-key.ts';
import type { Demand } from './demand.ts';
import { type KindId, kindId, type PoolKind, versionOf } from './pool-kind.ts';
import type { PoolMaker } from './pool-maker.ts';
import type { ReadyInstances } from './ready-instances.ts';
import { RefillPacing } from './refill-pacing.ts';

/** Longest time until an instance is finished, unless it computes: then four times as long, for slow machines. */
const MAKING = { windowMs: 30_000, mostWindows: 4 };
/** Longest wait for an instance that is being made; after that it may never become ready. */
const COMING_MS = 500;
/** Pauses of a kind after failed launches. */
const PAUSES = { firstMs: 1000, longestMs: 60_000 };
/** A kind gives up an instance for another kind only if it has this much more than its share. */
const TOLERATED_SURPLUS = 0.25;

export interface RefillOptions {
  /** Places for instances to keep ready, of all kinds together. */
  size: number;
  /** Instances made at a time, at most, while requested kinds are missing. */
  parallelLaunches: number;
  demand: Demand;
  ready: ReadyInstances;
  maker: Pick<PoolMaker, 'make' | 'hasMemoryToSpare' | 'placesOf' | 'processorMs'>;
  /** Windows of the limit; see `untilIdle`. */
  making?: typeof MAKING;
  log: Logger;
}

/** Next action. `isMissing`: the step is for a kind that was just requested and of which none is ready. */
type Step = { isMissing: boolean } & ({ make: PoolKind } | { remove: InstanceKey });

/** An instance that is being made. */
interface Coming {
  id: KindId;
  key: InstanceKey;
  isAwaited: boolean;
  ended: PromiseWithResolvers<void>;
}

/**
 * Keeps as many instances ready as the demand asks for. They are made one after another, while no requested launch
 * runs. If a kind is requested while none is ready, several of it are made at once, so that the next requests can wait
 * for one of them.
 */
export class Refill {
  readonly #options: RefillOptions;
  readonly #pacing = new RefillPacing();
  readonly #pauses = new Map<KindId, { until: number; backOff: BackOff }>();
  /** Instances that are being made, oldest first. */
  readonly #coming = new Map<Coming, Promise<void>>();
  readonly #closing = new AbortController();
  #changed = Promise.withResolvers<void>();
  /** Resolves when a request takes the last instance of a kind, or finds none. */
  #emptied = Promise.withResolvers<void>();
  #refilled: Promise<void> = Promise.resolve();

  constructor(options: RefillOptions) {
    this.#options = options;
  }

  open(): void {
    this.#refilled = this.#run(this.#closing.signal);
  }

  /** Aborts the launches under way and resolves when they are undone. */
  async close(): Promise<void> {
    this.#closing.abort(new Error('the pool is closing'));
    await this.#refilled;
  }

  /** Returns whether that instance is being made. */
  owns(key: InstanceKey): boolean {
    return this.#coming.keys().some((coming) => coming.key === key);
  }

  /** Chooses the next step again. Call it after a change of the ready instances or of the demand. */
  wake(): void {
    this.#changed.resolve();
    this.#changed = Promise.withResolvers();
  }

  /** Notes that a request took a ready instance of that kind, or found none. */
  recordRequest(id: KindId, { isHit }: { isHit: boolean }): void {
    if (isHit) this.#pacing.noteClaim();
    const isEmptied = !this.#options.ready.has(id);
    // Deferred, so that the claim and its answer do not wait for the choice of the next step.
    setImmediate(() => {
      if (isEmptied) {
        this.#emptied.resolve();
        this.#emptied = Promise.withResolvers();
      }
      this.wake();
    });
  }

  /** Notes that the sandbox that is about to claim an instance computes from its first moment. */
  noteBusyClaim(): void {
    this.#pacing.noteBusyClaim();
  }

  /** Suspends the refill until the result is disposed, but not for longer than 250 ms. */
  pauseRefill(): Disposable {
    this.#pacing.requestStarted();
    return {
      [Symbol.dispose]: () => {
        this.#pacing.requestEnded();
        this.wake();
      },
    };
  }

  /**
   * Waits for an instance of that kind that is being made and that no other caller waits for. Returns whether one may
   * be ready now.
   */
  async next(id: KindId, signal: AbortSignal): Promise<boolean> {
    const coming = this.#coming.keys().find((one) => one.id === id && !one.isAwaited);
    if (coming === undefined) return false;
    coming.isAwaited = true;
    await wait(coming.ended.promise, signal, COMING_MS);
    coming.isAwaited = false;
    return !signal.aborted;
  }

  async #run(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      const changed = this.#changed.promise;
      const step = this.#nextStep();
      const suspendedMs = this.#pacing.suspendedMs();
      const quietMs = this.#pacing.quietMs();
      if (step === undefined) await wait(changed, signal);
      else if (suspendedMs > 0) await wait(changed, signal, suspendedMs);
      else if (!step.isMissing && quietMs > 0) await wait(this.#emptied.promise, signal, quietMs);
      else if ('remove' in step) await this.#options.ready.remove(step.remove);
      else this.#start(step.make, signal);
    }
    await Promise.all(this.#coming.values());
  }

  /**
   * Returns the next step: to make an instance of the kind that has the smallest part of its share, so that each kind
   * soon has one, or, if the pool is full, to remove an instance of a kind that has too many.
   */
  #nextStep(): Step | undefined {
    const { size, parallelLaunches, demand, ready, maker } = this.#options;
    const forgotten = ready.entries().find(([, id]) => !demand.remembers(id));
    if (forgotten) return { remove: forgotten[0], isMissing: false };
    if (this.#coming.size >= parallelLaunches) return undefined;
    const readyCounts = countsOf(ready.entries().map(([, id]) => id));
    const comingCounts = countsOf(this.#coming.keys().map(({ id }) => id));
    const placesOf = (versionId: string) => maker.placesOf(versionId);
    const shares = demand.shares(size, placesOf);
    const taken = [...readyCounts, ...comingCounts].reduce(
      (sum, [id, count]) => sum + count * placesOf(versionOf(id)),
      0,
    );
    /** Finds a ready instance of a kind that exceeds its share by more than this fraction. */
    const surplus = (tolerated: number) =>
      ready.entries().find(([, id]) => (readyCounts.get(id) ?? 0) > (shares.get(id)?.share ?? 0) * (1 + tolerated));
    // The pool can exceed its size: an instance whose memory has grown takes more places than when it was made.
    const excess = taken > size && surplus(0);
    if (excess) return { remove: excess[0], isMissing: false };
    const now = performance.now();
    const [poorest] = [...shares]
      .map(([id, { kind, share }]) => {
        const isMissing = !readyCounts.has(id) && demand.wasJustRequested(id);
        return { id, kind, isMissing, part: ((readyCounts.get(id) ?? 0) + (comingCounts.get(id) ?? 0)) / share };
      })
      .filter(({ isMissing }) => isMissing || this.#coming.size === 0)
      .filter(({ id, part }) => part < 1 && (this.#pauses.get(id)?.until ?? 0) <= now)
      .sort((one, other) => one.part - other.part);
    if (poorest === undefined || !maker.hasMemoryToSpare()) return undefined;
    const { kind, isMissing } = poorest;
    const places = placesOf(kind.templateVersionId);
    if (taken + places <= size) return { make: kind, isMissing };
    // The first large instance of a kind may displace small ones although each of their kinds exceeds its share by
    // little.
    const richest = surplus(places > 1 && poorest.part === 0 ? 0 : TOLERATED_SURPLUS);
    return richest && { remove: richest[0], isMissing };
  }

  #start(kind: PoolKind, closing: AbortSignal): void {
    const coming = {
      id: kindId(kind),
      key: pooledInstanceKey(),
      isAwaited: false,
      ended: Promise.withResolvers<void>(),
    };
    const made = this.#make(coming, kind, closing).finally(() => {
      this.#coming.delete(coming);
      this.#pacing.noteLaunchAhead();
      coming.ended.resolve();
      this.wake();
    });
    this.#coming.set(coming, made);
  }

  async #make({ id, key }: Coming, kind: PoolKind, closing: AbortSignal): Promise<void> {
    const { maker, ready, log, making = MAKING } = this.#options;
    using deadline = new Deadline(Number.POSITIVE_INFINITY, closing);
    untilIdle(() => maker.processorMs(key), making, deadline.signal)
      .then(() => deadline.end('timeout', new Error('the launch took too long')))
      .catch(reportFailure);
    try {
      await maker.make(key, kind, deadline.signal);
      ready.add(key, kind);
      this.#pauses.delete(id);
    } catch (err) {
      if (closing.aborted) return;
      const { backOff } = this.#pauses.get(id) ?? { backOff: new BackOff(PAUSES) };
      const ms = backOff.next();
      this.#pauses.set(id, { until: performance.now() + ms, backOff });
      log.warn({ operation: 'launch ahead', outcome: 'failed', kind: id, retryInMs: ms, err });
    } finally {
      // Ends the look at its processor time.
      deadline.end('canceled');
    }
  }
}

function countsOf(ids: Iterable<KindId>): Map<KindId, number> {
  const counts = new Map<KindId, number>();
  for (const id of ids) counts.set(id, (counts.get(id) ?? 0) + 1);
  return counts;
}

/** Resolves with `promise`, when the signal aborts, or after `ms`. */
async function wait(promise: Promise<void>, signal: AbortSignal, ms = Number.POSITIVE_INFINITY): Promise<void> {
  using deadline = new Deadline(ms, signal);
  await deadline.race(promise).catch(() => undefined);
}
