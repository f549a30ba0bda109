import { setImmediate } from 'node:timers/promises';
import type { EventId, OrgId, ProjectId, ResourceEvent } from '@cloche/contract';
import type { Selectable } from 'kysely';
import { type Clock, timestamp } from '../base/clock.ts';
import type { IdSource } from '../base/id-source.ts';
import type { Database } from '../db/database.ts';
import { type PreparedQuery, prepareQuery } from '../db/prepared-query.ts';
import type { EventTable } from '../db/tables/event-tables.ts';
import type { Transaction } from '../db/transactions.ts';

/** Events deleted by one statement, which takes a few milliseconds. */
const FORGOTTEN_AT_ONCE = 500;

type Unnumbered<Event> = Event extends ResourceEvent ? Omit<Event, 'seq' | 'id' | 'at'> : never;
/** An event before the outbox has numbered and dated it. */
export type NewEvent = Unnumbered<ResourceEvent>;

/**
 * Stores the events of the organizations. An event is written in the transaction of the change that it reports, so
 * that neither exists without the other. After the commit, the listeners of this server are called.
 */
export class EventOutbox {
  readonly #db: Database;
  readonly #clock: Clock;
  readonly #ids: IdSource;
  readonly #number: PreparedQuery<{ org_id: string }, { last_seq: number }>;
  readonly #insert: PreparedQuery<Selectable<EventTable>, unknown>;
  readonly #listeners: ((event: ResourceEvent) => void)[] = [];

  constructor(db: Database, clock: Clock, ids: IdSource) {
    this.#db = db;
    this.#clock = clock;
    this.#ids = ids;
    this.#number = prepareNumber(db);
    this.#insert = prepareQuery(db, (slots: Selectable<EventTable>) =>
      db.insertInto('events').values({
        org_id: slots.org_id,
        seq: slots.seq,
        id: slots.id,
        type: slots.type,
        at: slots.at,
        project_id: slots.project_id,
        data: slots.data,
      }),
    );
  }

  /**
   * Appends an event in `tx`. Call it last in the transaction: until the commit it holds the organization's counter,
   * and so makes other transactions with events of the organization wait (docs/design/records.md, Events).
   */
  async append(tx: Transaction, event: NewEvent): Promise<void> {
    const at = this.#clock.now();
    const id = this.#ids.next('evt_') as EventId;
    const [counter] = (await this.#number({ org_id: event.orgId }, tx)).rows;
    if (!counter) throw new Error('the counter of events returned no number');
    const seq = counter.last_seq;
    await this.#insert(
      {
        org_id: event.orgId,
        seq,
        id,
        type: event.type,
        at,
        project_id: event.projectId ?? null,
        data: JSON.stringify(event.data),
      },
      tx,
    );
    const appended: ResourceEvent = { seq, id, at: timestamp(at), ...event };
    tx.afterCommit(() => {
      for (const listener of this.#listeners) listener(appended);
    });
  }

  /**
   * Calls `listener` after the commit of each event that this server appends. Register it before the first event. It
   * must not throw. Events of other servers are only in the database.
   */
  onCommitted(listener: (event: ResourceEvent) => void): void {
    this.#listeners.push(listener);
  }

  /** Deletes the events that happened before the time `before`, in batches. Returns their number. */
  async forget(before: number): Promise<number> {
    const old = this.#db
      .selectFrom('events')
      .select(['org_id', 'seq'])
      .where('at', '<', before)
      .limit(FORGOTTEN_AT_ONCE);
    let forgotten = 0;
    for (;;) {
      const { numDeletedRows } = await this.#db
        .deleteFrom('events')
        .where(({ eb, refTuple }) => eb(refTuple('org_id', 'seq'), 'in', old.$asTuple('org_id', 'seq')))
        .executeTakeFirst();
      forgotten += Number(numDeletedRows);
      if (numDeletedRows < FORGOTTEN_AT_ONCE) return forgotten;
      await setImmediate();
    }
  }
}

/** The upsert locks the counter until the commit, so numbers become visible in their order. */
function prepareNumber(db: Database) {
  return prepareQuery(db, (slots: { org_id: string }) =>
    db
      .insertInto('event_sequences')
      .values({ org_id: slots.org_id, last_seq: 1 })
      .onConflict((conflict) =>
        conflict.column('org_id').doUpdateSet((row) => ({ last_seq: row('event_sequences.last_seq', '+', 1) })),
      )
      .returning('last_seq'),
  );
}

/** Converts a row. The casts are sound because only the outbox writes these columns. */
export function toEvent(row: Selectable<EventTable>): ResourceEvent {
  return {
    seq: row.seq,
    id: row.id as EventId,
    type: row.type,
    at: timestamp(row.at),
    orgId: row.org_id as OrgId,
    ...(row.project_id === null ? {} : { projectId: row.project_id as ProjectId }),
    data: JSON.parse(row.data),
  } as ResourceEvent;
}
