import type { Kysely } from 'kysely';
import { kindOf } from './database-kind.ts';

/**
 * Returns whether queries of `db` can lock rows (`for update`, `for key share`). SQLite cannot, and needs no locks: it
 * runs one writing statement or transaction at a time.
 */
export function locksRows<Tables>(db: Kysely<Tables>): boolean {
  return kindOf(db) === 'postgresql';
}
