import { unavailable } from '../base/app-error.ts';
import { locksRows } from '../db/row-locks.ts';
import type { Transaction } from '../db/transactions.ts';

/** One execution of a request with an Idempotency-Key. A retry after a crash is another execution. */
export interface Attempt {
  /** Id of the idempotency record, which all attempts share. */
  readonly recordId: string;
  /** Counts the claims of the record, beginning with 1. Undefined for work of the service, which has no such record. */
  readonly claim?: number | undefined;
}

/**
 * Checks in a transaction that a request still has the claim of its idempotency record, and keeps others from claiming it
 * until the transaction ends. An operation that replaces what an interrupted attempt made needs this check: a paused
 * server may resume after another server has answered the request; without the check it would overwrite that answer.
 *
 * Does nothing without a claim, and on SQLite, whose only server knows that its claims hold.
 *
 * @throws AppError `unavailable` if another attempt has claimed the record, or has answered the request
 */
export async function requireClaim({ db }: Transaction, attempt: Attempt | undefined): Promise<void> {
  if (attempt?.claim === undefined || !locksRows(db)) return;
  const query = db.selectFrom('idempotency_records').select('id').where('id', '=', attempt.recordId);
  const own = query.where('claim', '=', attempt.claim).where('state', '=', 'in_progress');
  if (await own.forNoKeyUpdate().executeTakeFirst()) return;
  throw unavailable('Another attempt of this request has begun; repeat the request with the same Idempotency-Key.');
}
