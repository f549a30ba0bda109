import { sql } from 'kysely';
import { locksRows } from '../../platform/db/row-locks.ts';
import type { Transaction } from '../../platform/db/transactions.ts';

/** Number of the advisory lock of PostgreSQL. */
const KEYS = 7_309_517;

/**
 * Makes changes of the keys of secrets wait until the end of `tx`, so that no key is deleted between the encryption of a
 * value and the commit of its row: encrypt only after this call. PostgreSQL releases the lock when it ends the
 * transaction, also that of a server that has stopped, whose row is then not written.
 *
 * Take this lock after that of the organization, and before those of rows of secrets.
 */
export async function keepKeys({ db }: Transaction): Promise<void> {
  // SQLite runs one transaction at a time.
  if (locksRows(db)) await sql`select pg_advisory_xact_lock_shared(${sql.lit(KEYS)})`.execute(db);
}

/**
 * Waits until no transaction of any server writes a value of a secret or changes the keys. Others wait until the end of
 * `tx`: keep it short.
 */
export async function lockKeys({ db }: Transaction): Promise<void> {
  if (locksRows(db)) await sql`select pg_advisory_xact_lock(${sql.lit(KEYS)})`.execute(db);
}
