import { Deadline } from '@cloche/node-support';
import type { Logger } from 'pino';
import type { InstanceKey } from '../instance/instance-key.ts';

/** Rest after a reclaim, in multiples of its processor time: reclaims take a tenth of a processor on average. */
const RESTS = 9;

export interface ReclaimQueueOptions {
  /** Time from `add` to the reclaim. */
  delayMs: number;
  /** Resolves with the processor time that it took. */
  reclaim: (key: InstanceKey, signal: AbortSignal) => Promise<number>;
  log?: Logger | undefined;
}

/** Reclaims the memory of instances, one at a time, with a rest after each. */
export class ReclaimQueue {
  readonly #options: ReclaimQueueOptions;
  /** Times at which instances are due, the earliest first. */
  readonly #due = new Map<InstanceKey, number>();
  #current: { key: InstanceKey; stop: AbortController } | undefined;
  #restsUntil = 0;
  /** Conditions of the callers of `hurry` that wait now. */
  readonly #wanted = new Set<() => boolean>();
  #isClosed = false;
  #changed = Promise.withResolvers<void>();
  #working: Promise<void> | undefined;

  constructor(options: ReclaimQueueOptions) {
    this.#options = options;
  }

  /** Reclaims the memory of that instance later, unless `remove` is called before. */
  add(key: InstanceKey): void {
    if (this.#isClosed) return;
    this.#due.delete(key);
    this.#due.set(key, performance.now() + this.#options.delayMs);
    this.#working ??= this.#work();
  }

  /** Begins to stop the reclaim of that instance. */
  remove(key: InstanceKey): void {
    this.#due.delete(key);
    if (this.#current?.key === key) this.#current.stop.abort();
    this.#change();
  }

  /** Reclaims without delay and rest until `isEnough`, nothing is left, or the time is over. The rest is made up for. */
  async hurry(isEnough: () => boolean, limitMs: number): Promise<void> {
    using limit = new Deadline(limitMs);
    this.#wanted.add(isEnough);
    this.#change();
    try {
      while (this.#working && !isEnough() && limit.endedBy === undefined) {
        await limit.race(this.#changed.promise).catch(() => undefined);
      }
    } finally {
      this.#wanted.delete(isEnough);
    }
  }

  /** Resolves when no reclaim is under way. */
  async close(): Promise<void> {
    this.#isClosed = true;
    this.#due.clear();
    this.#current?.stop.abort();
    this.#change();
    await this.#working;
  }

  async #work(): Promise<void> {
    for (let [next] = this.#due; next !== undefined; [next] = this.#due) {
      const [key, dueAt] = next;
      const waitMs = this.#isHurried() ? 0 : Math.max(dueAt, this.#restsUntil) - performance.now();
      if (waitMs > 0) await this.#changeWithin(waitMs);
      else await this.#reclaim(key);
    }
    this.#working = undefined;
    this.#change();
  }

  #isHurried(): boolean {
    return this.#wanted.values().some((isEnough) => !isEnough());
  }

  async #reclaim(key: InstanceKey): Promise<void> {
    const stop = new AbortController();
    this.#due.delete(key);
    this.#current = { key, stop };
    try {
      const tookMs = await this.#options.reclaim(key, stop.signal);
      this.#restsUntil = Math.max(performance.now(), this.#restsUntil) + RESTS * tookMs;
    } catch (err) {
      this.#options.log?.warn({ operation: 'reclaim', instance: key, outcome: 'failed', err });
    } finally {
      this.#current = undefined;
      this.#change();
    }
  }

  async #changeWithin(ms: number): Promise<void> {
    using limit = new Deadline(ms);
    await limit.race(this.#changed.promise).catch(() => undefined);
  }

  #change(): void {
    this.#changed.resolve();
    this.#changed = Promise.withResolvers();
  }
}
