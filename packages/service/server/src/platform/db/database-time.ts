import { type RawBuilder, sql } from 'kysely';
import type { Database } from './database.ts';
import { kindOf } from './database-kind.ts';

/**
 * Returns the current time of the database, for comparisons that must not depend on the clocks of servers. On
 * PostgreSQL it is the begin of the statement. SQLite has one server, so there it is `now`.
 */
export function databaseTime(db: Database, now: number): RawBuilder<number> {
  return kindOf(db) === 'sqlite'
    ? sql<number>`${now}`
    : sql<number>`(extract(epoch from statement_timestamp()) * 1000)::bigint`;
}
