import type { EventPage, EventType, OrgId, ProjectId, ResourceEvent } from '@cloche/contract';
import { Deadline } from '@cloche/node-support';
import { Changes } from '../base/changes.ts';
import type { Database } from '../db/database.ts';
import { lookThrough } from '../db/look-through.ts';
import { type EventOutbox, toEvent } from '../outbox/event-outbox.ts';

/** Events that a stream reads at once. */
const STREAM_PAGE = 100;
/** Longest time until a stream finds an event that another server appended. */
const LOOK_AGAIN_MS = 1000;

export interface EventFeedOptions {
  readonly lookAgainMs?: number;
  /** Changes by organization; those of this server alone by default. */
  readonly appended?: Changes<OrgId>;
}

export interface EventFilter {
  readonly orgId: OrgId;
  /** Undefined means every event of the organization, also those of no project. */
  readonly projectIds: readonly ProjectId[] | undefined;
  /** Undefined means every type. */
  readonly types: readonly EventType[] | undefined;
}

/** Reads the events of an organization in order, as pages and as streams. */
export class EventFeed {
  readonly #db: Database;
  readonly #appended: Changes<OrgId>;
  readonly #lookAgainMs: number;

  constructor(db: Database, outbox: EventOutbox, options: EventFeedOptions = {}) {
    const { lookAgainMs = LOOK_AGAIN_MS, appended = new Changes<OrgId>() } = options;
    this.#db = db;
    this.#appended = appended;
    this.#lookAgainMs = lookAgainMs;
    outbox.onCommitted(({ orgId }) => this.#appended.notify(orgId));
  }

  /** Returns the events that follow `afterSeq`: at most `limit` of them, and of a bounded part of all events. */
  async read(filter: EventFilter, afterSeq: number, limit: number): Promise<EventPage> {
    // Read before the events, so that it is never greater than the number of the last event searched.
    const head = await this.#lastSeq(filter.orgId);
    const until = await lookThrough(this.#db, 'events', { orgId: filter.orgId, afterSeq });
    if (until === undefined) return { data: [], nextSeq: head, hasMore: false };
    const data = await this.#matching(filter, { afterSeq, until, limit });
    const nextSeq = data.length === limit ? (data.at(-1)?.seq ?? until) : until;
    return { data, nextSeq, hasMore: nextSeq < head };
  }

  /** Yields the events that follow `afterSeq`, and each further one after its commit, until `signal` aborts. */
  async *follow(filter: EventFilter, afterSeq: number, signal: AbortSignal): AsyncGenerator<ResourceEvent, never> {
    for (let next = afterSeq; ; ) {
      // A new watch for each page: waits for one shared promise would accumulate while no event is appended.
      using watch = this.#appended.watch(filter.orgId);
      const appended = watch.next();
      const { data, nextSeq, hasMore } = await this.read(filter, next, STREAM_PAGE);
      signal.throwIfAborted();
      yield* data;
      next = nextSeq;
      if (!hasMore) await this.#untilAppended(appended, signal);
    }
  }

  /** Resolves when an event was appended, or when it is time to look again. */
  async #untilAppended(appended: Promise<void>, signal: AbortSignal): Promise<void> {
    using limit = new Deadline(this.#lookAgainMs, signal);
    await limit.race(appended).catch(() => signal.throwIfAborted());
  }

  async #lastSeq(orgId: OrgId): Promise<number> {
    const query = this.#db.selectFrom('event_sequences').select('last_seq').where('org_id', '=', orgId);
    return (await query.executeTakeFirst())?.last_seq ?? 0;
  }

  async #matching(
    { orgId, projectIds, types }: EventFilter,
    { afterSeq, until, limit }: { afterSeq: number; until: number; limit: number },
  ): Promise<ResourceEvent[]> {
    let query = this.#db.selectFrom('events').selectAll().where('org_id', '=', orgId);
    query = query.where('seq', '>', afterSeq).where('seq', '<=', until);
    if (projectIds) query = query.where('project_id', 'in', projectIds);
    if (types) query = query.where('type', 'in', types);
    return (await query.orderBy('seq').limit(limit).execute()).map(toEvent);
  }
}
