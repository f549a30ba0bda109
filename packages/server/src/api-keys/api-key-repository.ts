import type { ALL_SCOPES, ApiKeyId, OrgId, ProjectId, Scope } from '@cloche/contract';
import { sql } from 'kysely';
import type { Database } from '../db/database.ts';
import type { ApiKeyTable } from '../db/tables/organization-tables.ts';
import { type Transaction, Transactions } from '../db/transactions.ts';
import { lockOrganization } from '../projects/lock-organization.ts';
import { type ApiKeyRecord, OPERATOR } from './api-key.ts';

/** Ids in one statement. */
const IDS_AT_ONCE = 500;

/**
 * A new key. If a retry finds a key with the same idempotency record, it revokes that key and creates another, because
 * the secret of the first was never returned.
 */
export interface NewKey extends ApiKeyRecord {
  readonly idempotencyRecordId?: string | undefined;
}

/** `lost` is the key that an interrupted attempt created. It is revoked now. */
export type Inserted =
  | { readonly status: 'inserted'; readonly lost: ApiKeyRecord | undefined }
  | { readonly status: 'full'; readonly used: number };

export interface Rotated {
  readonly successor: ApiKeyRecord;
  /** The successor that an interrupted attempt created. It is revoked now. */
  readonly lost: ApiKeyRecord | undefined;
}

export interface ApiKeyRepository {
  insert(key: NewKey, joined?: Transaction): Promise<void>;
  /** Inserts `key` unless the organization has `maxWorking` working keys. */
  insertBounded(key: NewKey, maxWorking: number, joined?: Transaction): Promise<Inserted>;
  /**
   * Replaces the working key `successor.rotatedFrom`, which expires at `graceEndsAt` or earlier. The successor expires
   * when the old key would have. Returns undefined if the old key does not work.
   */
  rotate(successor: NewKey, graceEndsAt: number, joined?: Transaction): Promise<Rotated | undefined>;
  find(orgId: OrgId, id: string): Promise<ApiKeyRecord | undefined>;
  findByPublicPart(publicPart: string): Promise<ApiKeyRecord | undefined>;
  findBySecretHash(secretHash: string, joined?: Transaction): Promise<ApiKeyRecord | undefined>;
  /** Returns the keys of an organization, newest first. */
  list(orgId: OrgId): Promise<ApiKeyRecord[]>;
  /** Returns the keys among `ids` that no longer work at `now`. */
  listEnded(ids: readonly ApiKeyId[], now: number): Promise<ApiKeyId[]>;
  /** Returns the keys whose ids start with `prefix`, without superseded ones. */
  listCurrent(prefix: string, joined?: Transaction): Promise<ApiKeyRecord[]>;
  /**
   * Revokes a key for good. Idempotent: the first revocation time stays. Returns the key if it was not revoked before.
   */
  revoke(id: ApiKeyId, at: number, joined?: Transaction): Promise<ApiKeyRecord | undefined>;
  /** Revokes a key that has this time of creation. Only such a key can be restored. Otherwise as `revoke`. */
  supersede(id: ApiKeyId, createdAt: number, at: number, tx: Transaction): Promise<ApiKeyRecord | undefined>;
  /** Gives a key another time of creation. Returns false if it is revoked. */
  renew(id: ApiKeyId, createdAt: number, tx: Transaction): Promise<boolean>;
  /** Makes a superseded key valid again, with another time of creation. Returns false for any other key. */
  restore(id: ApiKeyId, createdAt: number, tx: Transaction): Promise<boolean>;
  /** Records that keys were used at `at`. */
  markUsed(ids: readonly ApiKeyId[], at: number): Promise<void>;
  /** Removes the hashes of superseded free-form keys. Those of others are needed to know them again. */
  forgetChosenKeys(): Promise<void>;
  any(): Promise<boolean>;
}

export class SqlApiKeyRepository implements ApiKeyRepository {
  readonly #db: Database;
  readonly #transactions: Transactions;

  constructor(db: Database) {
    this.#db = db;
    this.#transactions = new Transactions(db);
  }

  async insert(key: NewKey, joined?: Transaction): Promise<void> {
    await (joined?.db ?? this.#db).insertInto('api_keys').values(toRow(key)).execute();
  }

  async insertBounded(key: NewKey, maxWorking: number, joined?: Transaction): Promise<Inserted> {
    return this.#transactions.run(async (tx) => {
      const { db } = tx;
      await lockOrganization(tx, key.orgId);
      const lost = await revokeLost(db, key);
      const { used } = await db
        .selectFrom('api_keys')
        .select(({ fn }) => fn.countAll<number>().as('used'))
        .where('org_id', '=', key.orgId)
        .where('revoked_at', 'is', null)
        .where((where) => where.or([where('expires_at', 'is', null), where('expires_at', '>', key.createdAt)]))
        .executeTakeFirstOrThrow();
      if (Number(used) >= maxWorking) return { status: 'full', used: Number(used) };
      await db.insertInto('api_keys').values(toRow(key)).execute();
      return { status: 'inserted', lost };
    }, joined);
  }

  async rotate(successor: NewKey, graceEndsAt: number, joined?: Transaction): Promise<Rotated | undefined> {
    return this.#transactions.run(async ({ db }) => {
      const lost = await revokeLost(db, successor);
      const old = db.updateTable('api_keys').where('id', '=', successor.rotatedFrom ?? '');
      // Locks the row, because the successor takes over the key's expiry before this call shortens it.
      const locked = await old
        .set((each) => ({ name: each.ref('name') }))
        .where('revoked_at', 'is', null)
        .where((where) => where.or([where('expires_at', 'is', null), where('expires_at', '>', successor.createdAt)]))
        .returning('expires_at')
        .executeTakeFirst();
      if (!locked) return undefined;
      await old
        .set({ expires_at: graceEndsAt })
        .where((where) => where.or([where('expires_at', 'is', null), where('expires_at', '>', graceEndsAt)]))
        .execute();
      const expiresAt = lost ? lost.expiresAt : (locked.expires_at ?? undefined);
      await db
        .insertInto('api_keys')
        .values(toRow({ ...successor, expiresAt }))
        .execute();
      return { successor: { ...successor, expiresAt }, lost };
    }, joined);
  }

  async find(orgId: OrgId, id: string): Promise<ApiKeyRecord | undefined> {
    const query = this.#db.selectFrom('api_keys').selectAll().where('id', '=', id).where('org_id', '=', orgId);
    const row = await query.executeTakeFirst();
    return row && toRecord(row);
  }

  findByPublicPart(publicPart: string): Promise<ApiKeyRecord | undefined> {
    return this.#findBy('public_part', publicPart);
  }

  findBySecretHash(secretHash: string, joined?: Transaction): Promise<ApiKeyRecord | undefined> {
    return this.#findBy('secret_hash', secretHash, joined);
  }

  async list(orgId: OrgId): Promise<ApiKeyRecord[]> {
    const query = this.#db.selectFrom('api_keys').selectAll().where('org_id', '=', orgId);
    const rows = await query.orderBy('created_at', 'desc').orderBy('id', 'desc').execute();
    return rows.map(toRecord);
  }

  async listEnded(ids: readonly ApiKeyId[], now: number): Promise<ApiKeyId[]> {
    const ended: ApiKeyId[] = [];
    for (const some of inParts(ids)) {
      const rows = await this.#db
        .selectFrom('api_keys')
        .select('id')
        .where('id', 'in', some)
        .where((where) => where.or([where('revoked_at', 'is not', null), where('expires_at', '<=', now)]))
        .execute();
      ended.push(...rows.map(({ id }) => id as ApiKeyId));
    }
    return ended;
  }

  async listCurrent(prefix: string, joined?: Transaction): Promise<ApiKeyRecord[]> {
    const query = (joined?.db ?? this.#db).selectFrom('api_keys').selectAll().where('superseded', '=', 0);
    const rows = await query.where(sql<string>`substr(id, 1, ${prefix.length})`, '=', prefix).execute();
    return rows.map(toRecord);
  }

  async revoke(id: ApiKeyId, at: number, joined?: Transaction): Promise<ApiKeyRecord | undefined> {
    const update = (joined?.db ?? this.#db).updateTable('api_keys').where('id', '=', id);
    const valid = update.where('revoked_at', 'is', null);
    const row = await valid.set({ revoked_at: at }).returningAll().executeTakeFirst();
    if (row) return toRecord(row);
    await update.where('superseded', '=', 1).set({ superseded: 0 }).execute();
    return undefined;
  }

  async supersede(id: ApiKeyId, createdAt: number, at: number, { db }: Transaction): Promise<ApiKeyRecord | undefined> {
    const valid = db.updateTable('api_keys').where('id', '=', id).where('revoked_at', 'is', null);
    const query = valid.where('created_at', '=', createdAt).set({ revoked_at: at, superseded: 1 });
    const row = await query.returningAll().executeTakeFirst();
    return row && toRecord(row);
  }

  async renew(id: ApiKeyId, createdAt: number, { db }: Transaction): Promise<boolean> {
    const update = db.updateTable('api_keys').set({ created_at: createdAt }).where('id', '=', id);
    const { numUpdatedRows } = await update.where('revoked_at', 'is', null).executeTakeFirst();
    return numUpdatedRows > 0n;
  }

  async restore(id: ApiKeyId, createdAt: number, { db }: Transaction): Promise<boolean> {
    const valid = { revoked_at: null, superseded: 0, created_at: createdAt };
    const superseded = db.updateTable('api_keys').where('id', '=', id).where('superseded', '=', 1);
    return (await superseded.set(valid).executeTakeFirst()).numUpdatedRows > 0n;
  }

  async markUsed(ids: readonly ApiKeyId[], at: number): Promise<void> {
    for (const some of inParts(ids)) {
      await this.#db
        .updateTable('api_keys')
        .set({ last_used_at: at })
        .where('id', 'in', some)
        .where((where) => where.or([where('last_used_at', 'is', null), where('last_used_at', '<', at)]))
        .execute();
    }
  }

  async forgetChosenKeys(): Promise<void> {
    await this.#db
      .updateTable('api_keys')
      .set((each) => ({ secret_hash: each.ref('id') }))
      .where('public_part', 'is', null)
      .where('superseded', '=', 1)
      .execute();
  }

  async any(): Promise<boolean> {
    return (await this.#db.selectFrom('api_keys').select('id').limit(1).executeTakeFirst()) !== undefined;
  }

  async #findBy(
    column: 'public_part' | 'secret_hash',
    value: string,
    joined?: Transaction,
  ): Promise<ApiKeyRecord | undefined> {
    const query = (joined?.db ?? this.#db).selectFrom('api_keys').selectAll();
    const row = await query.where(column, '=', value).executeTakeFirst();
    return row && toRecord(row);
  }
}

/** Revokes the key that an interrupted attempt of the same request made, and returns it. */
async function revokeLost(db: Database, { idempotencyRecordId, createdAt }: NewKey): Promise<ApiKeyRecord | undefined> {
  if (idempotencyRecordId === undefined) return undefined;
  const row = await db
    .updateTable('api_keys')
    .set({ revoked_at: createdAt })
    .where('idempotency_record_id', '=', idempotencyRecordId)
    .where('revoked_at', 'is', null)
    .returningAll()
    .executeTakeFirst();
  return row && toRecord(row);
}

function* inParts<T>(all: readonly T[]): Generator<readonly T[]> {
  for (let from = 0; from < all.length; from += IDS_AT_ONCE) yield all.slice(from, from + IDS_AT_ONCE);
}

function toRow(key: NewKey): ApiKeyTable {
  return {
    id: key.id,
    org_id: key.orgId,
    name: key.name,
    public_part: key.publicPart ?? null,
    secret_hash: key.secretHash,
    scopes: JSON.stringify(key.scopes),
    project_ids: key.projectIds ? JSON.stringify(key.projectIds) : null,
    created_at: key.createdAt,
    created_by: key.createdBy === OPERATOR ? null : key.createdBy,
    last_used_at: key.lastUsedAt ?? null,
    expires_at: key.expiresAt ?? null,
    revoked_at: key.revokedAt ?? null,
    superseded: 0,
    rotated_from: key.rotatedFrom ?? null,
    idempotency_record_id: key.idempotencyRecordId ?? null,
  };
}

/** Converts a row. The casts are sound because only this repository writes these columns. */
function toRecord(row: ApiKeyTable): ApiKeyRecord {
  return {
    id: row.id as ApiKeyId,
    orgId: row.org_id as OrgId,
    name: row.name,
    publicPart: row.public_part ?? undefined,
    secretHash: row.secret_hash,
    scopes: JSON.parse(row.scopes) as (Scope | typeof ALL_SCOPES)[],
    projectIds: row.project_ids === null ? undefined : (JSON.parse(row.project_ids) as ProjectId[]),
    createdAt: row.created_at,
    createdBy: (row.created_by as ApiKeyId | null) ?? OPERATOR,
    lastUsedAt: row.last_used_at ?? undefined,
    expiresAt: row.expires_at ?? undefined,
    revokedAt: row.revoked_at ?? undefined,
    rotatedFrom: (row.rotated_from as ApiKeyId | null) ?? undefined,
  };
}
