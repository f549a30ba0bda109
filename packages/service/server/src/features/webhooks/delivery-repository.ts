import type { DeliveryId, EventId, ResourceEvent, WebhookId } from '@cloche/contract';
import type { IdSource } from '../../platform/base/id-source.ts';
import type { Audited } from '../../platform/call/call.ts';
import type { Database } from '../../platform/db/database.ts';
import type { Transaction, Transactions } from '../../platform/db/transactions.ts';
import { toEvent } from '../../platform/outbox/event-outbox.ts';
import type { DeliveryRow, SendResult } from './delivery.ts';
import type { WebhookRecord } from './webhook.ts';

/** Number of the latest deliveries of a webhook whose answers are kept, so that a receiver cannot fill the disk. */
export const ANSWERS_KEPT = 20;
const FORGOTTEN_AT_ONCE = 500;

/** An event, or a test, which has no number. */
export interface Sent {
  readonly id: EventId;
  readonly type: string;
  readonly seq: number | undefined;
}

/** State of a delivery after an attempt. */
export interface Outcome {
  readonly status: DeliveryRow['status'];
  /** Time of the delivery's own next attempt, its failed attempts, and the time of the first; undefined without one. */
  readonly retry?: { readonly at: number; readonly attempts: number; readonly since: number } | undefined;
}

/** Stores what was sent to webhooks. */
export class DeliveryRepository {
  readonly #db: Database;
  readonly #transactions: Transactions;
  readonly #ids: IdSource;

  constructor(db: Database, transactions: Transactions, ids: IdSource) {
    this.#db = db;
    this.#transactions = transactions;
    this.#ids = ids;
  }

  /** Records an attempt, as the first of a new delivery or as a further one. */
  record(
    webhookId: WebhookId,
    sent: Sent,
    attempt: { result: SendResult; outcome: Outcome; at: number },
    joined?: Transaction,
  ): Promise<DeliveryRow> {
    return this.#transactions.run(async (tx) => {
      const { result, outcome, at } = attempt;
      const existing = await findByEvent(tx, webhookId, sent.seq);
      const last = await this.#number(tx, webhookId, existing === undefined);
      const keepsAnswer = (existing?.seq ?? last) > last - ANSWERS_KEPT;
      const values = {
        status: outcome.status,
        last_attempt_at: at,
        retry_at: outcome.retry?.at ?? null,
        retry_attempts: outcome.retry?.attempts ?? 0,
        retry_since: outcome.retry?.since ?? null,
        response_status: result.kind === 'answered' ? result.status : null,
        response_body: result.kind === 'answered' && keepsAnswer ? result.body : null,
        error: result.kind === 'failed' ? result.error : null,
      };
      if (existing) {
        return tx.db
          .updateTable('webhook_deliveries')
          .set({ ...values, attempts: existing.attempts + 1 })
          .where('id', '=', existing.id)
          .returningAll()
          .executeTakeFirstOrThrow();
      }
      const { id: event_id, type: event_type, seq } = sent;
      const row = { event_id, event_type, event_seq: seq ?? null, webhook_id: webhookId, created_at: at, attempts: 1 };
      return tx.db
        .insertInto('webhook_deliveries')
        .values({ ...row, ...values, id: this.#ids.next('dlv_'), seq: last })
        .returningAll()
        .executeTakeFirstOrThrow();
    }, joined);
  }

  /** Sets aside a delivery that has failed at the cursor. It is then retried independently of the cursor. */
  async setAside(
    webhook: WebhookRecord,
    eventSeq: number,
    retry: NonNullable<Outcome['retry']>,
    tx: Transaction,
  ): Promise<void> {
    await tx.db
      .updateTable('webhook_deliveries')
      .set({ retry_at: retry.at, retry_attempts: retry.attempts, retry_since: retry.since })
      .where('webhook_id', '=', webhook.id)
      .where('event_seq', '=', eventSeq)
      .execute();
  }

  /** Returns deliveries whose own retry is due, the longest waiting first. */
  listDue(webhookId: WebhookId, now: number, limit: number): Promise<DeliveryRow[]> {
    return this.#all(webhookId).where('retry_at', '<=', now).orderBy('retry_at').limit(limit).execute();
  }

  list(webhookId: WebhookId, afterSeq: number, limit: number): Promise<DeliveryRow[]> {
    return this.#all(webhookId).where('seq', '>', afterSeq).orderBy('seq').limit(limit).execute();
  }

  find(webhookId: WebhookId, id: string): Promise<DeliveryRow | undefined> {
    return this.#all(webhookId).where('id', '=', id).executeTakeFirst();
  }

  /** Returns the event of a delivery, or undefined when it is no longer kept. */
  async findEvent(webhook: WebhookRecord, seq: number): Promise<ResourceEvent | undefined> {
    const query = this.#db.selectFrom('events').selectAll().where('org_id', '=', webhook.orgId).where('seq', '=', seq);
    const row = await query.executeTakeFirst();
    return row && toEvent(row);
  }

  /**
   * Retries a delivery at `now`. If the delivery waits at the cursor of its webhook, the webhook's next attempt is
   * moved to `now`; otherwise the delivery is retried independently of the cursor.
   */
  resend({ audit }: Audited, webhook: WebhookRecord, delivery: DeliveryRow, now: number): Promise<DeliveryRow> {
    return this.#transactions.run(async (tx) => {
      const resent = await this.#resend(tx, webhook, delivery, now);
      await audit?.append(tx, webhook);
      return resent;
    });
  }

  async #resend(tx: Transaction, webhook: WebhookRecord, delivery: DeliveryRow, now: number): Promise<DeliveryRow> {
    if (delivery.event_seq !== null && delivery.event_seq > webhook.cursorSeq) {
      await tx.db.updateTable('webhooks').set({ next_attempt_at: now }).where('id', '=', webhook.id).execute();
      return delivery;
    }
    return tx.db
      .updateTable('webhook_deliveries')
      .set({ status: 'pending', retry_at: now, retry_attempts: 0, retry_since: now })
      .where('id', '=', delivery.id)
      .returningAll()
      .executeTakeFirstOrThrow();
  }

  /** Ends a delivery whose event is no longer kept. */
  async giveUp(id: DeliveryId, error: string): Promise<void> {
    const values = { status: 'failed' as const, retry_at: null, retry_since: null, error };
    await this.#db.updateTable('webhook_deliveries').set(values).where('id', '=', id).execute();
  }

  /** Deletes deliveries that were created before the time `before`, in batches. */
  async forget(before: number): Promise<void> {
    for (;;) {
      const old = this.#db.selectFrom('webhook_deliveries').select('id').where('created_at', '<', before);
      const { numDeletedRows } = await this.#db
        .deleteFrom('webhook_deliveries')
        .where('id', 'in', old.limit(FORGOTTEN_AT_ONCE))
        .executeTakeFirst();
      if (numDeletedRows < FORGOTTEN_AT_ONCE) return;
    }
  }

  #all(webhookId: WebhookId) {
    return this.#db.selectFrom('webhook_deliveries').selectAll().where('webhook_id', '=', webhookId);
  }

  /** Returns the number of the last delivery, after counting a new one, and drops the answer that is too old then. */
  async #number(tx: Transaction, webhookId: WebhookId, isNew: boolean): Promise<number> {
    const { delivery_seq: last } = await tx.db
      .updateTable('webhooks')
      .set(({ eb }) => ({ delivery_seq: eb('delivery_seq', '+', isNew ? 1 : 0) }))
      .where('id', '=', webhookId)
      .returning('delivery_seq')
      .executeTakeFirstOrThrow();
    if (isNew && last > ANSWERS_KEPT) {
      await tx.db
        .updateTable('webhook_deliveries')
        .set({ response_body: null })
        .where('webhook_id', '=', webhookId)
        .where('seq', '=', last - ANSWERS_KEPT)
        .execute();
    }
    return last;
  }
}

async function findByEvent(
  tx: Transaction,
  webhookId: WebhookId,
  seq: number | undefined,
): Promise<DeliveryRow | undefined> {
  if (seq === undefined) return undefined;
  return tx.db
    .selectFrom('webhook_deliveries')
    .selectAll()
    .where('webhook_id', '=', webhookId)
    .where('event_seq', '=', seq)
    .executeTakeFirst();
}
