import { type RawBuilder, sql } from 'kysely';
import type { Database } from './database.ts';
import { kindOf } from './database-kind.ts';

/**
 * Returns the time by the clock of the database, for comparisons that servers with clocks of their own must make in the same
 * way: on PostgreSQL the begin of the statement, before it reads a row. The one server of a SQLite file compares with `now`.
 */
export function databaseTime(db: Database, now: number): RawBuilder<number> {
  return kindOf(db) === 'sqlite'
    ? sql<number>`${now}`
    : sql<number>`(extract(epoch from statement_timestamp()) * 1000)::bigint`;
}
