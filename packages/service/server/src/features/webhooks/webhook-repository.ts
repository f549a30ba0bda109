import type { OrgId, ProjectId, WebhookId } from '@cloche/contract';
import { type Insertable, sql, type UpdateObject } from 'kysely';
import type { Audited, Call } from '../../platform/call/call.ts';
import type { Database, Tables } from '../../platform/db/database.ts';
import { laterThanAll } from '../../platform/db/later-than-all.ts';
import { type ListPart, NEWEST_FIRST, readPart, selected } from '../../platform/db/list-part.ts';
import type { WebhookTable } from '../../platform/db/tables/webhook-tables.ts';
import type { Transaction, Transactions } from '../../platform/db/transactions.ts';
import { requireClaim } from '../../platform/idempotency/require-claim.ts';
import { type InsertLimit, insertLimited, type LimitedInsertion } from '../quotas/limited-insert.ts';
import { toRecord, type WebhookRecord } from './webhook.ts';

export interface NewWebhook {
  readonly id: WebhookId;
  readonly orgId: OrgId;
  readonly projectId: ProjectId | undefined;
  readonly url: string;
  readonly events: readonly string[];
  readonly description: string | undefined;
  readonly secret: string;
  readonly idempotencyRecordId: string | undefined;
}

export interface WebhookChange {
  readonly url?: string | undefined;
  readonly events?: readonly string[] | undefined;
  readonly enabled?: boolean | undefined;
}

/** Stores webhooks. Those that are deleted are kept, without their secrets and deliveries. */
export class WebhookRepository {
  readonly #db: Database;
  readonly #transactions: Transactions;

  constructor(db: Database, transactions: Transactions) {
    this.#db = db;
    this.#transactions = transactions;
  }

  /**
   * Inserts a webhook that is sent the events from now on, unless the organization has `limit` of them.
   *
   * @throws AppError `not_found` when the project was deleted meanwhile
   */
  insert(
    webhook: NewWebhook,
    { now, ...limit }: InsertLimit & { readonly now: number },
    joined?: Transaction,
  ): Promise<LimitedInsertion<WebhookRecord>> {
    const { orgId, projectId, idempotencyRecordId } = webhook;
    return this.#transactions.run((tx) => {
      const findEarlier = async (recordId: string) => {
        const query = tx.db.selectFrom('webhooks').selectAll().where('idempotency_record_id', '=', recordId);
        const row = await query.executeTakeFirst();
        return row && toRecord(row);
      };
      const insert = async () => {
        const last = await tx.db
          .selectFrom('event_sequences')
          .select('last_seq')
          .where('org_id', '=', orgId)
          .executeTakeFirst();
        const createdAt = laterThanAll({ table: 'webhooks', list: 'org_id' }, orgId, now);
        const values = {
          ...toRow(webhook),
          cursor_seq: last?.last_seq ?? 0,
          next_attempt_at: now,
          created_at: createdAt,
          updated_at: createdAt,
        };
        return toRecord(await tx.db.insertInto('webhooks').values(values).returningAll().executeTakeFirstOrThrow());
      };
      return insertLimited(tx, {
        ...limit,
        table: 'webhooks',
        orgId,
        projectId,
        idempotencyRecordId,
        findEarlier,
        insert,
      });
    }, joined);
  }

  /** Finds a webhook of the organization, also a deleted one. */
  async find(orgId: OrgId, id: string): Promise<WebhookRecord | undefined> {
    const query = this.#db.selectFrom('webhooks').selectAll().where('id', '=', id).where('org_id', '=', orgId);
    const row = await query.executeTakeFirst();
    return row && toRecord(row);
  }

  /** Returns a part of those that are not deleted, newest first; of every project if `projectIds` is undefined. */
  async list(orgId: OrgId, projectIds: readonly ProjectId[] | undefined, part: ListPart): Promise<WebhookRecord[]> {
    const query = this.#db
      .selectFrom('webhooks')
      .selectAll()
      .where('org_id', '=', orgId)
      .where('deleted_at', 'is', null);
    return (await readPart(query, NEWEST_FIRST, part, selected(this.#db, { projectIds }, 'webhooks'))).map(toRecord);
  }

  /**
   * Sets the given fields and ends the claim, so that nothing more is sent with the old values. A new URL, or
   * `enabled`, also ends a wait after failures. Returns undefined for a deleted webhook.
   */
  update(
    { audit }: Pick<Call, 'audit'>,
    id: WebhookId,
    { url, events, enabled }: WebhookChange,
    now: number,
  ): Promise<WebhookRecord | undefined> {
    const startsAnew = url !== undefined || enabled === true;
    const change = {
      updated_at: now,
      claimed_by: null,
      claimed_until: null,
      ...(url === undefined ? {} : { url }),
      ...(events === undefined ? {} : { events: JSON.stringify(events) }),
      ...(enabled === undefined ? {} : { enabled: Number(enabled) }),
      ...(enabled === true ? { disabled_reason: null } : {}),
      ...(startsAnew ? { attempts: 0, failing_since: null, next_attempt_at: now } : {}),
    };
    return this.#set({ audit, idempotency: undefined }, id, change);
  }

  /**
   * Replaces the secret. The secret that the row had is also used for signing until `until`. Returns undefined for a
   * deleted webhook. @throws AppError `unavailable` if another attempt has claimed the request
   */
  rotate(
    call: Pick<Call, 'audit' | 'idempotency'>,
    id: WebhookId,
    secret: string,
    until: number,
  ): Promise<WebhookRecord | undefined> {
    // Read in the statement: another rotation may have replaced the secret since the caller read it.
    const change = { secret, previous_secret: sql.ref<string>('secret'), previous_secret_until: until };
    return this.#set(call, id, change);
  }

  /** Deletes a webhook, its secrets and its deliveries. Idempotent. */
  async delete({ audit }: Audited, { id, projectId }: WebhookRecord, now: number): Promise<void> {
    await this.#transactions.run(async (tx) => {
      const { numUpdatedRows } = await tx.db
        .updateTable('webhooks')
        .set({ deleted_at: now, enabled: 0, secret: '', previous_secret: null, claimed_by: null, claimed_until: null })
        .where('id', '=', id)
        .where('deleted_at', 'is', null)
        .executeTakeFirst();
      await tx.db.deleteFrom('webhook_deliveries').where('webhook_id', '=', id).execute();
      if (numUpdatedRows > 0n) await audit?.append(tx, { id, projectId });
    });
  }

  #set(
    { audit, idempotency }: Pick<Call, 'audit' | 'idempotency'>,
    id: WebhookId,
    change: UpdateObject<Tables, 'webhooks'>,
  ): Promise<WebhookRecord | undefined> {
    return this.#transactions.run(async (tx) => {
      await requireClaim(tx, idempotency);
      const query = tx.db.updateTable('webhooks').set(change).where('id', '=', id).where('deleted_at', 'is', null);
      const row = await query.returningAll().executeTakeFirst();
      if (!row) return undefined;
      const webhook = toRecord(row);
      await audit?.append(tx, webhook);
      return webhook;
    });
  }
}

type Row = Omit<Insertable<WebhookTable>, 'cursor_seq' | 'next_attempt_at' | 'created_at' | 'updated_at'>;

function toRow(webhook: NewWebhook): Row {
  return {
    id: webhook.id,
    org_id: webhook.orgId,
    project_id: webhook.projectId ?? null,
    url: webhook.url,
    events: JSON.stringify(webhook.events),
    description: webhook.description ?? null,
    enabled: 1,
    disabled_reason: null,
    secret: webhook.secret,
    previous_secret: null,
    previous_secret_until: null,
    delivery_seq: 0,
    attempts: 0,
    failing_since: null,
    claimed_by: null,
    claimed_until: null,
    deleted_at: null,
    idempotency_record_id: webhook.idempotencyRecordId ?? null,
  };
}
