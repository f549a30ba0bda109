import { setImmediate } from 'node:timers/promises';
import type { ApiKeyId, OrgId } from '@cloche/contract';
import { sql } from 'kysely';
import type { Database } from '../db/database.ts';
import { databaseTime } from '../db/database-time.ts';
import { prepareQuery } from '../db/prepared-query.ts';
import { locksRows } from '../db/row-locks.ts';
import type { IdempotencyRecordTable } from '../db/tables/server-tables.ts';
import type { HeldClaims } from './held-claims.ts';
import { RECORD_BYTES, type ResultFile, type StoredResponse, storedBytesOf } from './stored-response.ts';

/** Records deleted by one statement, which takes a few milliseconds. */
const EXPIRED_AT_ONCE = 500;

/** Identifies an operation: two requests with equal fields are the same operation. */
export interface IdempotencyScope {
  readonly orgId: OrgId;
  readonly apiKeyId: ApiKeyId;
  readonly method: string;
  /** Request path with its parameters filled in. */
  readonly route: string;
  readonly key: string;
}

export interface ClaimRequest extends IdempotencyScope {
  /** Id for the record if this is the first claim of its scope. */
  readonly id: string;
  readonly bodyHash: string;
  /** Result of `claimOwner`; unique for each claim. */
  readonly owner: string;
  readonly now: number;
  readonly expiresAt: number;
}

export interface StoredRecord {
  readonly state: 'in_progress' | 'completed' | 'failed';
  readonly bodyHash: string;
  readonly response: StoredResponse | undefined;
}

export interface ClaimedRecord {
  /** Id of the record: the earlier one if the request was claimed before. */
  readonly id: string;
  /** Counts the claims of the record, beginning with 1. */
  readonly claim: number;
}

/** Record storage for `Idempotency`. */
export interface IdempotencyRecords {
  /**
   * Claims the record of a scope if there is no record, if it has expired, or if it has the same body and failed, or
   * its server has died. Exactly one of several concurrent claims succeeds. Returns undefined if the claim did not
   * succeed.
   */
  claim(request: ClaimRequest): Promise<ClaimedRecord | undefined>;
  find(scope: IdempotencyScope): Promise<StoredRecord | undefined>;
  /** Stores the response. Returns false when `owner` no longer holds the record; the response is then not stored. */
  complete(id: string, owner: string, response: StoredResponse): Promise<boolean>;
  fail(id: string, owner: string): Promise<void>;
  delete(id: string, owner: string): Promise<void>;
}

/**
 * Returns a name for one claim of one server. It keeps other claims, including earlier ones of the same record, from
 * ending this one.
 */
export function claimOwner(serverId: string, claim: string): string {
  return `${serverId}:${claim}`;
}

/** Returns a text that is unique for each scope. */
export function nameOf(scope: Readonly<Record<keyof IdempotencyScope, string>>): string {
  const { orgId, apiKeyId, method, route, key } = scope;
  return `${orgId}\n${apiKeyId}\n${method}\n${route}\n${key}`;
}

export function scopeColumns({ orgId, apiKeyId, method, route, key }: IdempotencyScope) {
  return { org_id: orgId, api_key_id: apiKeyId, method, route, key };
}

/** Returns the columns of a claim's own record, except its state. */
export function claimColumns(claim: ClaimRequest) {
  const { id, bodyHash, owner, now, expiresAt } = claim;
  return { id, ...scopeColumns(claim), body_hash: bodyHash, owner, created_at: now, expires_at: expiresAt };
}

type ResponseColumns = Pick<
  IdempotencyRecordTable,
  'response_status' | 'response_body' | 'response_file' | 'stored_bytes'
>;

export function responseColumns(response: StoredResponse | undefined): ResponseColumns {
  return {
    response_status: response?.status ?? null,
    response_body: response && 'body' in response ? response.body : null,
    response_file: response && 'file' in response ? JSON.stringify(response.file) : null,
    stored_bytes: storedBytesOf(response),
  };
}

function responseOf(row: Omit<ResponseColumns, 'stored_bytes'>): StoredResponse | undefined {
  const { response_status: status, response_body: body, response_file: file } = row;
  if (status === null) return undefined;
  // Sound: only `responseColumns` writes this column.
  if (file !== null) return { status, file: JSON.parse(file) as ResultFile };
  return body === null ? undefined : { status, body };
}

/** Stores the records in the database; each claim is one statement. */
export class IdempotencyRepository implements IdempotencyRecords {
  readonly #db: Database;
  readonly #claim;
  readonly #find;
  readonly #complete;

  constructor(db: Database) {
    this.#db = db;
    this.#claim = prepareClaim(db);
    this.#find = prepareFind(db);
    this.#complete = prepareComplete(db);
  }

  async claim(request: ClaimRequest): Promise<ClaimedRecord | undefined> {
    return (await this.#claim(request)).rows[0];
  }

  async find(scope: IdempotencyScope): Promise<StoredRecord | undefined> {
    const [row] = (await this.#find(scope)).rows;
    return (
      row && {
        state: row.state,
        bodyHash: row.body_hash,
        response: responseOf(row),
      }
    );
  }

  async complete(id: string, owner: string, response: StoredResponse): Promise<boolean> {
    return (await this.#complete({ id, owner, ...responseColumns(response) })).changed === 1n;
  }

  async fail(id: string, owner: string): Promise<void> {
    await this.#inProgress().where('id', '=', id).where('owner', '=', owner).execute();
  }

  async delete(id: string, owner: string): Promise<void> {
    await this.#db
      .deleteFrom('idempotency_records')
      .where('id', '=', id)
      .where('owner', '=', owner)
      .where('state', '=', 'in_progress')
      .execute();
  }

  /** Marks all records that a server has in progress as `failed`. Returns their number. */
  async failAllOf(serverId: string): Promise<number> {
    return Number((await this.#inProgress().where(ownedBy(serverId)).executeTakeFirst()).numUpdatedRows);
  }

  /** Marks all records in progress whose server has no valid lease as `failed`. Returns their number. */
  async failAbandoned(now: number): Promise<number> {
    const live = liveOwner(this.#db, now);
    const abandoned = this.#inProgress().where(({ not, exists }) => not(exists(live)));
    return Number((await abandoned.executeTakeFirst()).numUpdatedRows);
  }

  /**
   * Marks records as `failed` that a server has in progress although no request works on them. Returns their number.
   * `held` must reflect the current claims at any moment, because claims come and go during the call.
   */
  async failUnheld(serverId: string, held: Pick<HeldClaims, 'has'>): Promise<number> {
    const rows = await this.#db
      .selectFrom('idempotency_records')
      .select(['id', 'owner'])
      .where('state', '=', 'in_progress')
      .where(ownedBy(serverId))
      .execute();
    // A claim is held before it is in the database. So if a record's claim is not held now, the work on it has ended or
    // never began.
    const unheld = rows.filter(({ owner }) => !held.has(owner));
    for (const { id, owner } of unheld) await this.fail(id, owner);
    return unheld.length;
  }

  /** Deletes expired records in batches, so that requests can run in between. */
  async deleteExpired(now: number): Promise<void> {
    const expired = this.#db.selectFrom('idempotency_records').select('id').where('expires_at', '<=', now);
    const slice = this.#db.deleteFrom('idempotency_records').where('id', 'in', expired.limit(EXPIRED_AT_ONCE));
    while ((await slice.executeTakeFirst()).numDeletedRows === BigInt(EXPIRED_AT_ONCE)) await setImmediate();
  }

  #inProgress() {
    return this.#db.updateTable('idempotency_records').set({ state: 'failed' }).where('state', '=', 'in_progress');
  }
}

function ownedBy(serverId: string) {
  const prefix = claimOwner(serverId, '');
  return sql<boolean>`substr(owner, 1, ${prefix.length}) = ${prefix}`;
}

/** Selects the lease of the server that owns a record, if it is valid. */
function liveOwner(db: Database, now: number) {
  const isTheirs = sql<boolean>`substr(idempotency_records.owner, 1, length(server_leases.id) + 1) = server_leases.id || ':'`;
  return db.selectFrom('server_leases').select('id').where('lease_until', '>', databaseTime(db, now)).where(isTheirs);
}

function prepareClaim(db: Database) {
  return prepareQuery(db, (slots: ClaimRequest) =>
    db
      .insertInto('idempotency_records')
      .values({ ...claimColumns(slots), state: 'in_progress', stored_bytes: RECORD_BYTES })
      .onConflict((conflict) =>
        conflict
          .columns(['org_id', 'api_key_id', 'method', 'route', 'key'])
          .doUpdateSet((row) => ({
            id: row
              .case()
              .when('idempotency_records.expires_at', '<=', slots.now)
              .then(row.ref('excluded.id'))
              .else(row.ref('idempotency_records.id'))
              .end(),
            body_hash: row.ref('excluded.body_hash'),
            state: 'in_progress',
            owner: row.ref('excluded.owner'),
            claim: row
              .case()
              .when('idempotency_records.expires_at', '<=', slots.now)
              .then(1)
              .else(row('idempotency_records.claim', '+', 1))
              .end(),
            response_status: null,
            response_body: null,
            response_file: null,
            stored_bytes: RECORD_BYTES,
            created_at: row.ref('excluded.created_at'),
            expires_at: row.ref('excluded.expires_at'),
          }))
          .where((row) =>
            row.or([
              row('idempotency_records.expires_at', '<=', slots.now),
              row.and([
                row('idempotency_records.body_hash', '=', row.ref('excluded.body_hash')),
                row.or([
                  row('idempotency_records.state', '=', 'failed'),
                  // Not needed for SQLite: its one server marks the records of its previous process as failed when it
                  // starts.
                  ...(locksRows(db)
                    ? [
                        row.and([
                          row('idempotency_records.state', '=', 'in_progress'),
                          row.not(row.exists(liveOwner(db, 0))),
                        ]),
                      ]
                    : []),
                ]),
              ]),
            ]),
          ),
      )
      .returning(['id', 'claim']),
  );
}

function prepareFind(db: Database) {
  return prepareQuery(db, (slots: IdempotencyScope) =>
    db
      .selectFrom('idempotency_records')
      .select(['state', 'body_hash', 'response_status', 'response_body', 'response_file'])
      .where(({ and }) => and(scopeColumns(slots))),
  );
}

function prepareComplete(db: Database) {
  return prepareQuery(db, (slots: { id: string; owner: string } & ResponseColumns) => {
    const { response_status, response_body, response_file, stored_bytes } = slots;
    return db
      .updateTable('idempotency_records')
      .set({ state: 'completed', response_status, response_body, response_file, stored_bytes })
      .where('id', '=', slots.id)
      .where('owner', '=', slots.owner)
      .where('state', '=', 'in_progress');
  });
}
