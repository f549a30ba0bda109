import { KeyedQueue } from '@cloche/node-support';
import { sql } from 'kysely';
import type { Transaction, Transactions } from '../../platform/db/transactions.ts';

/**
 * Distinguishes these locks from other advisory locks of the database. If two contents have the same lock number, one
 * only waits for the other.
 */
const SEED = 3_415_902;

/** Lets one server at a time decide whether a content is stored, used or removed. */
export interface ContentLocks {
  /**
   * Calls `act` while nothing else holds the content. `tx` holds the lock, if it is in the database: do every query in
   * it, and keep it short.
   */
  run<T>(sha256: string, act: (tx: Transaction | undefined) => Promise<T>): Promise<T>;
}

/** Returns locks among the requests of this server. */
export function queuedContentLocks(): ContentLocks {
  const queue = new KeyedQueue<string>();
  return { run: (sha256, act) => queue.run(sha256, () => act(undefined)) };
}

/** Returns locks among all servers of a PostgreSQL database. */
export function sharedContentLocks(transactions: Transactions): ContentLocks {
  return {
    run: (sha256, act) =>
      transactions.run(async (tx) => {
        await sql`select pg_advisory_xact_lock(hashtextextended(${sha256}, ${sql.lit(SEED)}))`.execute(tx.db);
        return act(tx);
      }),
  };
}
