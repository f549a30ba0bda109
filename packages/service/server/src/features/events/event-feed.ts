import type { EventPage, EventType, OrgId, ProjectId, ResourceEvent } from '@cloche/contract';
import { Changes } from '../../platform/base/changes.ts';
import type { Database } from '../../platform/db/database.ts';
import { lookThrough } from '../../platform/db/look-through.ts';
import { type EventOutbox, toEvent } from '../../platform/outbox/event-outbox.ts';
import { EventTail } from './event-tail.ts';

/** Events that a stream reads at once while it reads earlier events. */
const STREAM_PAGE = 100;

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
  /** The reader that the streams of each organization share. */
  readonly #tails = new Map<OrgId, { readonly tail: EventTail; streams: number }>();

  /** @param appended changes by organization; those of this server alone by default */
  constructor(db: Database, outbox: EventOutbox, appended: Changes<OrgId> = new Changes()) {
    this.#db = db;
    this.#appended = appended;
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

  /** Returns the number of the last event that follows `afterSeq` immediately and was deleted; `afterSeq` without one. */
  async lastDeleted(orgId: OrgId, afterSeq: number): Promise<number> {
    // Read before the events, because a later one is not deleted yet.
    const head = await this.#lastSeq(orgId);
    const { first } = await this.#db
      .selectFrom('events')
      .where('org_id', '=', orgId)
      .where('seq', '>', afterSeq)
      .select(({ fn }) => fn.min<number | null>('seq').as('first'))
      .executeTakeFirstOrThrow();
    return first === null ? Math.max(head, afterSeq) : Number(first) - 1;
  }

  /**
   * Yields the events that follow `afterSeq`, and each further one after its commit, until `signal` aborts. The streams
   * of an organization read new events together.
   */
  async *follow(filter: EventFilter, afterSeq: number, signal: AbortSignal): AsyncGenerator<ResourceEvent, never> {
    using shared = this.#share(filter.orgId);
    const matches = matcherOf(filter);
    for (let next = afterSeq; ; ) {
      const kept = shared.tail.after(next);
      const page = kept
        ? { data: kept.filter(matches), nextSeq: kept.at(-1)?.seq ?? next, hasMore: false }
        : await this.read(filter, next, STREAM_PAGE);
      signal.throwIfAborted();
      yield* page.data;
      next = page.nextSeq;
      if (!page.hasMore) await shared.tail.beyond(next, signal);
    }
  }

  /** Returns the organization's tail, which ends with the last of its streams. */
  #share(orgId: OrgId): Disposable & { readonly tail: EventTail } {
    const shared = this.#tails.get(orgId) ?? { tail: this.#openTail(orgId), streams: 0 };
    this.#tails.set(orgId, shared);
    shared.streams += 1;
    return {
      tail: shared.tail,
      [Symbol.dispose]: () => {
        shared.streams -= 1;
        if (shared.streams > 0) return;
        shared.tail.end();
        if (this.#tails.get(orgId) === shared) this.#tails.delete(orgId);
      },
    };
  }

  #openTail(orgId: OrgId): EventTail {
    const deps = {
      orgId,
      appended: this.#appended,
      lastSeq: () => this.#lastSeq(orgId),
      read: (afterSeq: number, limit: number) => this.#after(orgId, afterSeq, limit),
    };
    const tail = new EventTail(deps, () => {
      if (this.#tails.get(orgId)?.tail === tail) this.#tails.delete(orgId);
    });
    return tail;
  }

  async #after(orgId: OrgId, afterSeq: number, limit: number): Promise<ResourceEvent[]> {
    const query = this.#db.selectFrom('events').selectAll().where('org_id', '=', orgId).where('seq', '>', afterSeq);
    return (await query.orderBy('seq').limit(limit).execute()).map(toEvent);
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

function matcherOf({ projectIds, types }: EventFilter): (event: ResourceEvent) => boolean {
  const projects = projectIds && new Set<ProjectId | undefined>(projectIds);
  const wanted = types && new Set(types);
  return ({ projectId, type }) => (projects?.has(projectId) ?? true) && (wanted?.has(type) ?? true);
}
