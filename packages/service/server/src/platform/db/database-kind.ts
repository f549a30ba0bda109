import { type Kysely, SqliteAdapter } from 'kysely';

/** `sqlite`: one connection in this process, which no other process writes to. `postgresql`: connections to a server. */
export type DatabaseKind = 'sqlite' | 'postgresql';

export function kindOf<Tables>(db: Kysely<Tables>): DatabaseKind {
  return db.getExecutor().adapter instanceof SqliteAdapter ? 'sqlite' : 'postgresql';
}

/** Returns whether each statement takes a round trip, so that one of two tables is faster than two. */
export function answersOverNetwork<Tables>(db: Kysely<Tables>): boolean {
  return kindOf(db) === 'postgresql';
}
