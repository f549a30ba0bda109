import { unavailable } from '../base/app-error.ts';
import { locksRows } from '../db/row-locks.ts';
import type { Transaction } from '../db/transactions.ts';
import type { ClaimedRecord } from './idempotency-repository.ts';

/**
 * Checks in a transaction that a request still has the claim of its idempotency record, and keeps others from claiming it
 * until the transaction ends. An operation that replaces what an interrupted attempt made needs this check: a paused
 * server may resume after another server has answered the request; without the check it would overwrite that answer.
 *
 * Does nothing without a record, and on SQLite, whose only server knows that its claims hold.
 *
 * @throws AppError `unavailable` if another attempt has claimed the record, or has answered the request
 */
export async function requireClaim({ db }: Transaction, claimed: ClaimedRecord | undefined): Promise<void> {
  if (claimed === undefined || !locksRows(db)) return;
  const query = db.selectFrom('idempotency_records').select('id').where('id', '=', claimed.id);
  const own = query.where('claim', '=', claimed.claim).where('state', '=', 'in_progress');
  if (await own.forNoKeyUpdate().executeTakeFirst()) return;
  throw unavailable('Another attempt of this request has begun; repeat the request with the same Idempotency-Key.');
}
