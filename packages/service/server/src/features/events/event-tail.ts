import { setImmediate } from 'node:timers/promises';
import type { OrgId, ResourceEvent } from '@cloche/contract';
import { orAbort, reportFailure } from '@cloche/node-support';
import type { Changes } from '../../platform/base/changes.ts';

/** Events read by one query. */
const PAGE = 100;
/** Events kept for streams that have not taken them yet; a stream that is further behind reads by itself. */
const KEPT = 200;
/** Streams woken in one turn of the event loop. Each formats and writes the event. */
const WOKEN_AT_ONCE = 64;

export interface EventTailDeps {
  readonly orgId: OrgId;
  /** Notified after the commit of each event. */
  readonly appended: Changes<OrgId>;
  /** Returns the number of the organization's last event. */
  lastSeq(): Promise<number>;
  /** Returns the events that follow `afterSeq`, at most `limit`. */
  read(afterSeq: number, limit: number): Promise<ResourceEvent[]>;
}

/**
 * Reads each new event of an organization once, for all of its streams, and keeps the last ones. Reads only after a
 * notification, so that streams cost nothing while no event is appended.
 */
export class EventTail {
  readonly #deps: EventTailDeps;
  readonly #ending = new AbortController();
  readonly #waiting = new Set<() => void>();
  /** All events after `#floor`, up to `#top`. */
  #events: ResourceEvent[] = [];
  #floor = Number.POSITIVE_INFINITY;
  #top = Number.NEGATIVE_INFINITY;
  #failure: { readonly error: unknown } | undefined;

  /** @param onFailed called when an event cannot be read; every stream then ends with that error */
  constructor(deps: EventTailDeps, onFailed: () => void) {
    this.#deps = deps;
    this.#follow(this.#ending.signal)
      .catch(async (error: unknown) => {
        this.#failure = { error };
        onFailed();
        await this.#wake();
      })
      .catch(reportFailure);
  }

  /** Returns the events that follow `afterSeq`, or undefined if they are not all kept. */
  after(afterSeq: number): readonly ResourceEvent[] | undefined {
    if (afterSeq < this.#floor || afterSeq > this.#top) return undefined;
    const first = this.#events.findLastIndex(({ seq }) => seq <= afterSeq) + 1;
    return this.#events.slice(first);
  }

  /** Resolves when an event after `seq` has been read. Rejects when `signal` aborts or an event cannot be read. */
  async beyond(seq: number, signal: AbortSignal): Promise<void> {
    while (this.#top <= seq && !this.#failure) {
      const { promise, resolve } = Promise.withResolvers<void>();
      this.#waiting.add(resolve);
      try {
        await orAbort(promise, signal);
      } finally {
        this.#waiting.delete(resolve);
      }
    }
    if (this.#failure) throw this.#failure.error;
  }

  end(): void {
    this.#ending.abort();
  }

  async #follow(signal: AbortSignal): Promise<never> {
    const { orgId, appended, lastSeq, read } = this.#deps;
    this.#top = this.#floor = await lastSeq();
    for (;;) {
      // Watched before the events are read, so that none is missed.
      using watch = appended.watch(orgId);
      const changed = watch.next();
      const events = await read(this.#top, PAGE);
      signal.throwIfAborted();
      this.#keep(events);
      await this.#wake();
      if (events.length < PAGE) await orAbort(changed, signal);
    }
  }

  #keep(events: readonly ResourceEvent[]): void {
    this.#events.push(...events);
    this.#top = events.at(-1)?.seq ?? this.#top;
    const dropped = this.#events.splice(0, Math.max(0, this.#events.length - KEPT));
    this.#floor = dropped.at(-1)?.seq ?? this.#floor;
  }

  async #wake(): Promise<void> {
    let woken = 0;
    for (const wake of [...this.#waiting]) {
      wake();
      woken += 1;
      if (woken % WOKEN_AT_ONCE === 0) await setImmediate();
    }
  }
}
