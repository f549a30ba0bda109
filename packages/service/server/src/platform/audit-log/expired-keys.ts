import type { OrgId } from '@cloche/contract';
import type { Clock } from '../base/clock.ts';
import type { Database } from '../db/database.ts';
import type { Transactions } from '../db/transactions.ts';
import type { AuditLog } from './audit-log.ts';

/** Keys read at once. */
const BATCH = 100;

export interface ExpiredKeysDeps {
  readonly db: Database;
  readonly transactions: Transactions;
  readonly log: AuditLog;
  readonly clock: Clock;
}

/** Records API keys that have expired, each once, whichever servers look. */
export class ExpiredKeys {
  readonly #deps: ExpiredKeysDeps;

  constructor(deps: ExpiredKeysDeps) {
    this.#deps = deps;
  }

  async record(): Promise<void> {
    const { db, clock } = this.#deps;
    const now = clock.now();
    for (;;) {
      const expired = await db
        .selectFrom('api_keys')
        .select(['id', 'org_id'])
        .where('expires_at', '<=', now)
        .where('revoked_at', 'is', null)
        .where(({ not, exists, selectFrom }) =>
          not(exists(selectFrom('audited_expiries').whereRef('api_key_id', '=', 'api_keys.id').select('api_key_id'))),
        )
        .limit(BATCH)
        .execute();
      for (const { id, org_id } of expired) await this.#recordOne(id, org_id as OrgId);
      if (expired.length < BATCH) return;
    }
  }

  #recordOne(id: string, orgId: OrgId): Promise<void> {
    const { transactions, log } = this.#deps;
    return transactions.run(async (tx) => {
      const query = tx.db.insertInto('audited_expiries').values({ api_key_id: id });
      const inserted = await query.onConflict((conflict) => conflict.doNothing()).executeTakeFirst();
      if (inserted.numInsertedOrUpdatedRows === 0n) return;
      const actor = { type: 'system', id: 'system' } as const;
      const target = { type: 'api_key', id };
      await log.append({ orgId, actor, action: 'api_key.expired', target, outcome: 'allowed' }, tx);
    });
  }
}
