import type { ApiKeyId, OrgId } from '@cloche/contract';
import { type ExpressionBuilder, sql } from 'kysely';
import type { Database, Tables } from '../db/database.ts';
import { laterThanAll } from '../db/later-than-all.ts';
import { hasOnly, type ListPart, NEWEST_FIRST, readPart } from '../db/list-part.ts';
import { type Transaction, Transactions } from '../db/transactions.ts';
import { lockOrganization } from '../tenancy/lock-organization.ts';
import type { ApiKeyRecord } from './api-key.ts';
import { type NewKey, toRecord, toRow } from './api-key-row.ts';
import type { Credential } from './credential.ts';

/** Ids in one statement. */
const IDS_AT_ONCE = 500;

/** `lost` is the key that an interrupted attempt created. It is revoked now. */
export type Inserted =
  | { readonly status: 'inserted'; readonly key: ApiKeyRecord; readonly lost: ApiKeyRecord | undefined }
  | { readonly status: 'full'; readonly used: number };

export interface Rotated {
  readonly successor: ApiKeyRecord;
  /** The successor that an interrupted attempt created. It is revoked now. */
  readonly lost: ApiKeyRecord | undefined;
}

export interface KeyFilter {
  readonly orgId: OrgId;
  /** The key that lists. One that is bound to projects sees itself and the keys that are bound to no other projects. */
  readonly seenBy: Pick<Credential, 'apiKeyId' | 'projectIds'>;
  /** Only keys that work at this time; all keys if it is undefined. */
  readonly workingAt: number | undefined;
}

export interface ApiKeyRepository {
  /** Returns the key as it is stored. */
  insert(key: NewKey, joined?: Transaction): Promise<ApiKeyRecord>;
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
  /** Returns a part of the matching keys, newest first. */
  list(filter: KeyFilter, part: ListPart): Promise<ApiKeyRecord[]>;
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

  async insert(key: NewKey, joined?: Transaction): Promise<ApiKeyRecord> {
    const created_at = laterThanAll({ table: 'api_keys', list: 'org_id' }, key.orgId, key.createdAt);
    const insert = (joined?.db ?? this.#db).insertInto('api_keys').values({ ...toRow(key), created_at });
    return toRecord(await insert.returningAll().executeTakeFirstOrThrow());
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
        .where(expiresAfter(key.createdAt))
        .executeTakeFirstOrThrow();
      if (Number(used) >= maxWorking) return { status: 'full', used: Number(used) };
      return { status: 'inserted', key: await this.insert(key, tx), lost };
    }, joined);
  }

  async rotate(successor: NewKey, graceEndsAt: number, joined?: Transaction): Promise<Rotated | undefined> {
    return this.#transactions.run(async (tx) => {
      const { db } = tx;
      const lost = await revokeLost(db, successor);
      const old = db.updateTable('api_keys').where('id', '=', successor.rotatedFrom ?? '');
      // Locks the row, because the successor takes over the key's expiry before this call shortens it.
      const locked = await old
        .set((each) => ({ name: each.ref('name') }))
        .where('revoked_at', 'is', null)
        .where(expiresAfter(successor.createdAt))
        .returning('expires_at')
        .executeTakeFirst();
      if (!locked) return undefined;
      await old.set({ expires_at: graceEndsAt }).where(expiresAfter(graceEndsAt)).execute();
      const expiresAt = lost ? lost.expiresAt : (locked.expires_at ?? undefined);
      return { successor: await this.insert({ ...successor, expiresAt }, tx), lost };
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

  async list(
    { orgId, seenBy: { apiKeyId, projectIds }, workingAt }: KeyFilter,
    part: ListPart,
  ): Promise<ApiKeyRecord[]> {
    let query = this.#db.selectFrom('api_keys').selectAll().where('org_id', '=', orgId);
    if (workingAt !== undefined) query = query.where('revoked_at', 'is', null);
    // As `maySee` decides for one key.
    const seen = projectIds && sql<boolean>`(id = ${apiKeyId} or ${hasOnly(this.#db, 'project_ids', [...projectIds])})`;
    const working =
      workingAt === undefined ? undefined : sql<boolean>`(expires_at is null or expires_at > ${workingAt})`;
    return (
      await readPart(
        query,
        NEWEST_FIRST,
        part,
        [seen, working].filter((one) => one !== undefined),
      )
    ).map(toRecord);
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

function expiresAfter(at: number) {
  return ({ or, eb }: ExpressionBuilder<Tables, 'api_keys'>) =>
    or([eb('expires_at', 'is', null), eb('expires_at', '>', at)]);
}

function* inParts<T>(all: readonly T[]): Generator<readonly T[]> {
  for (let from = 0; from < all.length; from += IDS_AT_ONCE) yield all.slice(from, from + IDS_AT_ONCE);
}
