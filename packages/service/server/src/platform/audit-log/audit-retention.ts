import { setImmediate } from 'node:timers/promises';
import type { Database } from '../db/database.ts';
import type { Transaction, Transactions } from '../db/transactions.ts';
import type { MarkSigner } from './audit-chain.ts';

/** Events deleted in one transaction, which takes a few milliseconds. */
const BATCH = 500;

/** Deletes audit events after their retention period. A signed cut in their place lets the chain be verified. */
export class AuditRetention {
  readonly #db: Database;
  readonly #transactions: Transactions;
  readonly #signer: MarkSigner;

  constructor(db: Database, transactions: Transactions, signer: MarkSigner) {
    this.#db = db;
    this.#transactions = transactions;
    this.#signer = signer;
  }

  /** Deletes the oldest events up to the first that did not happen before the time `before`. Returns their number. */
  async forget(before: number): Promise<number> {
    let forgotten = 0;
    for (const { org_id } of await this.#db.selectFrom('audit_heads').select('org_id').execute()) {
      for (;;) {
        const deleted = await this.#transactions.run((tx) => this.#cut(tx, org_id, before));
        forgotten += deleted;
        if (deleted < BATCH) break;
        await setImmediate();
      }
    }
    return forgotten;
  }

  async #cut({ db }: Transaction, orgId: string, before: number): Promise<number> {
    const events = db.selectFrom('audit_events').select(['seq', 'at', 'hash']).where('org_id', '=', orgId);
    const oldest = await events.orderBy('seq').limit(BATCH).execute();
    const firstKept = oldest.findIndex(({ at }) => at >= before);
    const old = firstKept === -1 ? oldest : oldest.slice(0, firstKept);
    const last = old.at(-1);
    if (!last) return 0;
    const { seq, hash } = last;
    const signature = this.#signer.sign({ kind: 'cut', orgId, seq, hash });
    await db
      .insertInto('audit_cuts')
      .values({ org_id: orgId, seq, hash, signature })
      .onConflict((conflict) =>
        conflict.column('org_id').doUpdateSet({ seq, hash, signature }).where('audit_cuts.seq', '<', seq),
      )
      .execute();
    const deleted = db.deleteFrom('audit_events').where('org_id', '=', orgId).where('seq', '<=', seq);
    return Number((await deleted.executeTakeFirst()).numDeletedRows);
  }
}
