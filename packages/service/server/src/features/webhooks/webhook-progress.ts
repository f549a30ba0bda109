import type { OrgId, WebhookId } from '@cloche/contract';
import type { Updateable } from 'kysely';
import type { Clock } from '../../platform/base/clock.ts';
import type { ClaimedRows } from '../../platform/db/claimed-rows.ts';
import type { Database } from '../../platform/db/database.ts';
import type { WebhookTable } from '../../platform/db/tables/webhook-tables.ts';
import type { Transaction, Transactions } from '../../platform/db/transactions.ts';
import type { EventOutbox } from '../../platform/outbox/event-outbox.ts';
import { isGone, type SendResult } from './delivery.ts';
import type { DeliveryRepository, Sent } from './delivery-repository.ts';
import { nextAttempt } from './retry-times.ts';
import { type DisabledReason, toRecord, toWebhookOfEvent, type WebhookRecord } from './webhook.ts';

/** Webhooks that one look for due ones returns. */
const LOOKED_AT = 500;

export interface ProgressDeps {
  readonly db: Database;
  readonly transactions: Transactions;
  readonly outbox: EventOutbox;
  readonly claims: ClaimedRows;
  readonly deliveries: DeliveryRepository;
  readonly clock: Clock;
  /** Returns a number from 0 to 1. */
  readonly random: () => number;
}

/** A webhook that this process has claimed. */
export interface Claimed {
  readonly webhook: WebhookRecord;
  readonly claim: string;
}

/** An event and the result of sending it. */
export interface Attempted {
  readonly sent: Sent & { readonly seq: number };
  readonly result: SendResult;
}

/**
 * Moves webhooks forward along the events of their organization. Each step is one transaction that also checks the
 * claim. If the claim is gone, the step writes nothing and resolves with undefined.
 */
export class WebhookProgress {
  readonly #deps: ProgressDeps;

  constructor(deps: ProgressDeps) {
    this.#deps = deps;
  }

  /** Whether any webhook is enabled. */
  async anyEnabled(): Promise<boolean> {
    const query = this.#deps.db.selectFrom('webhooks').select('id').where('enabled', '=', 1).limit(1);
    return (await query.executeTakeFirst()) !== undefined;
  }

  /** Returns unclaimed webhooks that have something to send now, the longest waiting first. */
  async listDue(busy: readonly OrgId[]): Promise<{ id: WebhookId; orgId: OrgId }[]> {
    const { db, clock } = this.#deps;
    const now = clock.now();
    let query = db
      .selectFrom('webhooks')
      .select(['id', 'org_id'])
      .where('enabled', '=', 1)
      .where((eb) => eb.or([eb('claimed_by', 'is', null), eb('claimed_until', '<=', now)]))
      .where(({ eb, or, and, exists, selectFrom }) =>
        or([
          and([
            // Only after a failure is this a wait; otherwise it is the time of the last delivery.
            or([eb('attempts', '=', 0), eb('next_attempt_at', '<=', now)]),
            eb(
              'cursor_seq',
              '<',
              selectFrom('event_sequences')
                .select('last_seq')
                .whereRef('event_sequences.org_id', '=', 'webhooks.org_id'),
            ),
          ]),
          exists(
            selectFrom('webhook_deliveries')
              .select('webhook_deliveries.id')
              .whereRef('webhook_id', '=', 'webhooks.id')
              .where('retry_at', '<=', now),
          ),
        ]),
      );
    if (busy.length > 0) query = query.where('org_id', 'not in', busy);
    const rows = await query.orderBy('next_attempt_at').limit(LOOKED_AT).execute();
    return rows.map((row) => ({ id: row.id as WebhookId, orgId: row.org_id as OrgId }));
  }

  /**
   * Returns a webhook while `claim` holds it. A change by a client ends the claim, so nothing is sent with values from
   * before the change if this is called before each attempt.
   */
  async findClaimed(id: WebhookId, claim: string): Promise<WebhookRecord | undefined> {
    const query = this.#deps.db.selectFrom('webhooks').selectAll().where('id', '=', id);
    const row = await query.where('claimed_by', '=', claim).where('enabled', '=', 1).executeTakeFirst();
    return row && toRecord(row);
  }

  /** Moves the cursor past events that the webhook does not want. */
  skip(claimed: Claimed, cursorSeq: number): Promise<WebhookRecord | undefined> {
    return this.#step(claimed, (tx) => this.#set(tx, claimed, { cursor_seq: cursorSeq }));
  }

  /** Moves the cursor past events that were deleted before they were sent, and records which. */
  lose(claimed: Claimed, lastSeq: number): Promise<WebhookRecord | undefined> {
    const lost = { lost_first_seq: claimed.webhook.cursorSeq + 1, lost_last_seq: lastSeq };
    return this.#step(claimed, (tx) => this.#set(tx, claimed, { ...lost, cursor_seq: lastSeq }));
  }

  /** Records a delivery and moves the cursor past its event. */
  delivered(claimed: Claimed, attempted: Attempted): Promise<WebhookRecord | undefined> {
    return this.#step(claimed, (tx, now) => this.#deliver(tx, claimed, attempted, now));
  }

  /**
   * Records a successful delivery although the one before it, at the cursor, has failed. The failed one is set aside
   * and retried independently, at the times at which it would have been retried anyway.
   */
  overtook(claimed: Claimed, failed: Attempted, attempted: Attempted): Promise<WebhookRecord | undefined> {
    const { deliveries, random } = this.#deps;
    return this.#step(claimed, async (tx, now) => {
      const { attempts, failingSince: since = now } = claimed.webhook;
      const at = nextAttempt({ failures: attempts, since }, now, random()) ?? now;
      await deliveries.setAside(claimed.webhook, failed.sent.seq, { at, attempts, since }, tx);
      return this.#deliver(tx, claimed, attempted, now);
    });
  }

  /** Records a failure at the cursor: sets the time of the next attempt, or disables the webhook. */
  failed(claimed: Claimed, { sent, result }: Attempted): Promise<WebhookRecord | undefined> {
    const { deliveries, random } = this.#deps;
    return this.#step(claimed, async (tx, now) => {
      const { webhook } = claimed;
      await deliveries.record(webhook.id, sent, { result, outcome: { status: 'pending' }, at: now }, tx);
      const failures = webhook.attempts + 1;
      const since = webhook.failingSince ?? now;
      const at = nextAttempt({ failures, since }, now, random());
      const failing = { attempts: failures, failing_since: since };
      if (isGone(result)) return this.#disable(tx, claimed, failing, 'gone', now);
      if (at === undefined) return this.#disable(tx, claimed, failing, 'failing', now);
      return this.#set(tx, claimed, { ...failing, next_attempt_at: at });
    });
  }

  /** Records an attempt of an independent retry. */
  retried(
    claimed: Claimed,
    { sent, result }: Attempted,
    previous: { accepted: boolean; attempts: number; since: number },
  ): Promise<WebhookRecord | undefined> {
    const { deliveries, random } = this.#deps;
    return this.#step(claimed, async (tx, now) => {
      const attempts = previous.attempts + 1;
      const at = previous.accepted
        ? undefined
        : nextAttempt({ failures: attempts, since: previous.since }, now, random());
      const outcome = {
        status: previous.accepted
          ? ('delivered' as const)
          : at === undefined
            ? ('failed' as const)
            : ('pending' as const),
        retry: at === undefined ? undefined : { at, attempts, since: previous.since },
      };
      await deliveries.record(claimed.webhook.id, sent, { result, outcome, at: now }, tx);
      return isGone(result) ? this.#disable(tx, claimed, {}, 'gone', now) : claimed.webhook;
    });
  }

  async #step(
    { webhook, claim }: Claimed,
    act: (tx: Transaction, now: number) => Promise<WebhookRecord>,
  ): Promise<WebhookRecord | undefined> {
    const { transactions, claims, clock } = this.#deps;
    const now = clock.now();
    return transactions.run(async (tx) =>
      (await claims.renew(webhook.id, claim, now, tx)) ? act(tx, now) : undefined,
    );
  }

  async #deliver(tx: Transaction, claimed: Claimed, { sent, result }: Attempted, now: number): Promise<WebhookRecord> {
    const attempt = { result, outcome: { status: 'delivered' as const }, at: now };
    await this.#deps.deliveries.record(claimed.webhook.id, sent, attempt, tx);
    return this.#set(tx, claimed, { cursor_seq: sent.seq, attempts: 0, failing_since: null, next_attempt_at: now });
  }

  /** Disables a webhook, with the event that says so. */
  async #disable(
    tx: Transaction,
    claimed: Claimed,
    change: Updateable<WebhookTable>,
    reason: DisabledReason,
    now: number,
  ): Promise<WebhookRecord> {
    const disabled = await this.#set(tx, claimed, { ...change, enabled: 0, disabled_reason: reason, updated_at: now });
    const { orgId, projectId } = disabled;
    const data = { webhook: toWebhookOfEvent(disabled, now) };
    await this.#deps.outbox.append(tx, { type: 'webhook.disabled', orgId, ...(projectId && { projectId }), data });
    return disabled;
  }

  async #set(tx: Transaction, { webhook }: Claimed, change: Updateable<WebhookTable>): Promise<WebhookRecord> {
    const query = tx.db.updateTable('webhooks').set(change).where('id', '=', webhook.id).returningAll();
    return toRecord(await query.executeTakeFirstOrThrow());
  }
}
