import type { Database } from './database.ts';
import type { Notifications } from './notifications.ts';

/** Operations of a pool of connections to PostgreSQL that do not use Kysely. */
export interface PostgresStatements {
  /** Makes `sql` a prepared statement from now on. */
  name(sql: string): void;
  /** Calls `act`. Statements meanwhile have no time limit. */
  withoutLimits<T>(act: () => Promise<T>): Promise<T>;
  /**
   * Opens another pool with one connection. Each statement must be answered within `answerMs`. The caller destroys it.
   */
  openOwnConnection(answerMs: number): Database;
  /** Opens a connection for notifications between servers. The caller closes it. */
  openNotifications(): Notifications;
}

const pools = new WeakMap<Database, PostgresStatements>();

export function usePool(db: Database, pool: PostgresStatements): void {
  pools.set(db, pool);
}

/** Returns the pool of `db`, or undefined if `db` is of another kind. */
export function postgresPool(db: Database): PostgresStatements | undefined {
  return pools.get(db);
}

/**
 * Opens a connection for work that must not wait for a connection of the pool. Returns `db` itself for a database
 * without a pool. The caller closes it before `db`.
 */
export function openOwnConnection(db: Database, answerMs: number): { db: Database; close(): Promise<void> } {
  const own = postgresPool(db)?.openOwnConnection(answerMs);
  return { db: own ?? db, close: async () => own?.destroy() };
}
