import { type Kysely, SqliteAdapter } from 'kysely';

/** `sqlite`: one connection in this process, which no other process writes to. `postgresql`: connections to a server. */
export type DatabaseKind = 'sqlite' | 'postgresql';

export function kindOf<Tables>(db: Kysely<Tables>): DatabaseKind {
  return db.getExecutor().adapter instanceof SqliteAdapter ? 'sqlite' : 'postgresql';
}
