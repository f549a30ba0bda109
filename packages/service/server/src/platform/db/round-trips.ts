import type { Kysely } from 'kysely';
import { kindOf } from './database-kind.ts';

/** Returns whether each statement of `db` takes a round trip, so that one over two tables is faster than two. */
export function answersOverNetwork<Tables>(db: Kysely<Tables>): boolean {
  return kindOf(db) === 'postgresql';
}
