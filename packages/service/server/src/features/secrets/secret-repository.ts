import type { OrgId, ProjectId, SecretId } from '@cloche/contract';
import type { AuditChanges } from '../../platform/audit-log/audit-log.ts';
import type { Audited } from '../../platform/call/call.ts';
import type { Database } from '../../platform/db/database.ts';
import { laterThanAll } from '../../platform/db/later-than-all.ts';
import { type ListPart, NEWEST_FIRST, readPart, selected } from '../../platform/db/list-part.ts';
import { locksRows } from '../../platform/db/row-locks.ts';
import type { SecretTable } from '../../platform/db/tables/secret-tables.ts';
import type { Transaction, Transactions } from '../../platform/db/transactions.ts';
import { type InsertLimit, insertLimited, type LimitedInsertion } from '../quotas/limited-insert.ts';
import { type SecretRecord, toRecord } from './secret.ts';

export type NewSecret = Omit<SecretRecord, 'createdAt' | 'updatedAt' | 'deletedAt'> & {
  readonly idempotencyRecordId: string | undefined;
};

/**
 * Stores secrets. Deleted ones are kept, without their values. A value must be encrypted in the transaction that writes
 * it, after `keepKeys`.
 */
export class SecretRepository {
  readonly #db: Database;
  readonly #transactions: Transactions;

  constructor(db: Database, transactions: Transactions) {
    this.#db = db;
    this.#transactions = transactions;
  }

  /**
   * Inserts a secret, unless the organization has `limit` secrets.
   *
   * @throws AppError `not_found` when the project was deleted meanwhile
   */
  insert(
    secret: NewSecret,
    { now, ...limit }: InsertLimit & { readonly now: number },
    joined?: Transaction,
  ): Promise<LimitedInsertion<SecretRecord>> {
    const { id, orgId, projectId, name, hosts, value, idempotencyRecordId } = secret;
    return this.#transactions.run((tx) => {
      const findEarlier = async (recordId: string) => {
        const query = tx.db.selectFrom('secrets').selectAll().where('idempotency_record_id', '=', recordId);
        const row = await query.executeTakeFirst();
        return row && toRecord(row);
      };
      const insert = async () => {
        const createdAt = laterThanAll({ table: 'secrets', list: 'org_id' }, orgId, now);
        const values = {
          id,
          org_id: orgId,
          project_id: projectId,
          name,
          hosts: JSON.stringify(hosts),
          value,
          created_at: createdAt,
          updated_at: createdAt,
          deleted_at: null,
          idempotency_record_id: idempotencyRecordId ?? null,
        };
        return toRecord(await tx.db.insertInto('secrets').values(values).returningAll().executeTakeFirstOrThrow());
      };
      return insertLimited(tx, {
        ...limit,
        table: 'secrets',
        orgId,
        projectId,
        idempotencyRecordId,
        findEarlier,
        insert,
      });
    }, joined);
  }

  /** Finds a secret of the organization, also a deleted one. */
  async find(orgId: OrgId, id: string): Promise<SecretRecord | undefined> {
    const query = this.#db.selectFrom('secrets').selectAll().where('id', '=', id).where('org_id', '=', orgId);
    const row = await query.executeTakeFirst();
    return row && toRecord(row);
  }

  /** Returns a part of those that are not deleted, newest first; of every project if `projectIds` is undefined. */
  async list(orgId: OrgId, projectIds: readonly ProjectId[] | undefined, part: ListPart): Promise<SecretRecord[]> {
    const query = this.#db
      .selectFrom('secrets')
      .selectAll()
      .where('org_id', '=', orgId)
      .where('deleted_at', 'is', null);
    return (await readPart(query, NEWEST_FIRST, part, selected(this.#db, { projectIds }, 'secrets'))).map(toRecord);
  }

  /** Returns those of the secrets that are not deleted and belong to the project. */
  async listOfProject(projectId: ProjectId, ids: readonly string[]): Promise<SecretRecord[]> {
    const query = this.#db.selectFrom('secrets').selectAll().where('id', 'in', ids);
    const rows = await query.where('project_id', '=', projectId).where('deleted_at', 'is', null).execute();
    return rows.map(toRecord);
  }

  /** Returns a secret that nothing else changes until the end of `tx`; undefined for a deleted one. */
  async lock(id: SecretId, { db }: Transaction): Promise<SecretRecord | undefined> {
    const query = db.selectFrom('secrets').selectAll().where('id', '=', id).where('deleted_at', 'is', null);
    const row = await query.$if(locksRows(db), (locking) => locking.forUpdate()).executeTakeFirst();
    return row && toRecord(row);
  }

  /** Sets the given fields of a secret that `tx` has locked. */
  update(
    call: Audited,
    before: SecretRecord,
    { value, hosts, now }: { value?: string | undefined; hosts?: readonly string[] | undefined; now: number },
    tx: Transaction,
  ): Promise<SecretRecord | undefined> {
    const change = {
      updated_at: now,
      ...(value === undefined ? {} : { value }),
      ...(hosts === undefined ? {} : { hosts: JSON.stringify(hosts) }),
    };
    const changes = hosts && { hosts: { before: [...before.hosts], after: [...hosts] } };
    return this.#set(call, before.id, change, tx, changes);
  }

  /** Deletes a secret and its value. Idempotent. */
  async delete(call: Audited, id: SecretId, now: number): Promise<void> {
    await this.#transactions.run((tx) => this.#set(call, id, { deleted_at: now, value: '' }, tx));
  }

  /** Changes a secret that is not deleted, with the audit event in the same transaction. */
  async #set(
    { audit }: Audited,
    id: SecretId,
    change: Partial<SecretTable>,
    tx: Transaction,
    changes?: AuditChanges,
  ): Promise<SecretRecord | undefined> {
    const query = tx.db.updateTable('secrets').set(change).where('id', '=', id).where('deleted_at', 'is', null);
    const row = await query.returningAll().executeTakeFirst();
    if (!row) return undefined;
    const secret = toRecord(row);
    await audit?.append(tx, secret, changes);
    return secret;
  }

  /** Returns the organizations that have secrets. */
  async organizations(): Promise<OrgId[]> {
    const query = this.#db.selectFrom('secrets').select('org_id').distinct().where('deleted_at', 'is', null);
    return (await query.execute()).map(({ org_id: id }) => id as OrgId);
  }

  /** Returns secrets in the order of their ids, after `afterId`, of all organizations. */
  async page(afterId: string, limit: number, { db }: Transaction): Promise<SecretRecord[]> {
    const query = db.selectFrom('secrets').selectAll().where('id', '>', afterId).where('deleted_at', 'is', null);
    return (await query.orderBy('id').limit(limit).execute()).map(toRecord);
  }

  /** Replaces an encrypted value, unless it has changed. Returns whether it was replaced. */
  async replaceValue({ id, value }: SecretRecord, by: string, { db }: Transaction): Promise<boolean> {
    const query = db.updateTable('secrets').set({ value: by }).where('id', '=', id).where('value', '=', value);
    return (await query.returning('id').execute()).length > 0;
  }

  /** Returns whether any value is encrypted with the key. */
  async isAnySealedWith(keyId: string, { db }: Transaction): Promise<boolean> {
    const query = db.selectFrom('secrets').select('id').where('value', 'like', `${keyId}.%`).limit(1);
    return (await query.execute()).length > 0;
  }
}
