import { setImmediate } from 'node:timers/promises';
import { sql } from 'kysely';
import type { Database } from '../db/database.ts';
import type { Transactions } from '../db/transactions.ts';
import { BOOTSTRAP_PREFIX } from './api-key.ts';

/** Records deleted in one transaction; bounds how long other requests wait for the database. */
const BATCH = 100;

/** Deletes the records of keys that were revoked or have expired, after their retention period. */
export class EndedKeys {
  readonly #db: Database;
  readonly #transactions: Transactions;

  constructor(db: Database, transactions: Transactions) {
    this.#db = db;
    this.#transactions = transactions;
  }

  /**
   * Deletes the records of keys that ended before the time `before`, and returns their number. Keeps a key that a
   * preview names, and an expired key until its expiry is in the audit log. Always keeps keys that are or were in the
   * server's settings: otherwise a start with the same settings would make a rotated key valid again.
   */
  async forget(before: number): Promise<number> {
    let forgotten = 0;
    for (;;) {
      const ids = await this.#find(before);
      if (ids.length > 0) await this.#delete(ids);
      forgotten += ids.length;
      if (ids.length < BATCH) return forgotten;
      await setImmediate();
    }
  }

  async #find(before: number): Promise<string[]> {
    const rows = await this.#db
      .selectFrom('api_keys')
      .select('id')
      .where(({ or, and, eb, exists, selectFrom }) =>
        or([
          eb('revoked_at', '<', before),
          and([
            eb('expires_at', '<', before),
            eb('revoked_at', 'is', null),
            exists(selectFrom('audited_expiries').whereRef('api_key_id', '=', 'api_keys.id').select('api_key_id')),
          ]),
        ]),
      )
      .where(sql<string>`substr(api_keys.id, 1, ${BOOTSTRAP_PREFIX.length})`, '<>', BOOTSTRAP_PREFIX)
      .where(({ not, exists, selectFrom }) =>
        not(exists(selectFrom('previews').whereRef('previews.api_key_id', '=', 'api_keys.id').select('previews.id'))),
      )
      .limit(BATCH)
      .execute();
    return rows.map(({ id }) => id);
  }

  #delete(ids: readonly string[]): Promise<void> {
    return this.#transactions.run(async ({ db }) => {
      await db.deleteFrom('audited_expiries').where('api_key_id', 'in', ids).execute();
      await db.deleteFrom('api_keys').where('id', 'in', ids).execute();
    });
  }
}
