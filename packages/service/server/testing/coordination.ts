/** The coordination of a server of a test: that of the kind of its database, with the parts that the test chooses. */
import type { Coordination } from '../src/compose/coordination.ts';
import { type ManyServersParts, manyServers } from '../src/compose/many-servers.ts';
import { oneServer } from '../src/compose/one-server.ts';
import { type ContentLocks, queuedContentLocks, sharedContentLocks } from '../src/features/artifacts/content-locks.ts';
import { LEASE_MS, OPEN_FENCE } from '../src/platform/base/fence.ts';
import type { Database } from '../src/platform/db/database.ts';
import { kindOf } from '../src/platform/db/database-kind.ts';
import { NO_NOTIFICATIONS } from '../src/platform/db/notifications.ts';
import type { Transactions } from '../src/platform/db/transactions.ts';
import { HeldClaims } from '../src/platform/idempotency/held-claims.ts';
import { SILENT } from './silent.ts';

type Chosen = Pick<ManyServersParts, 'db' | 'ids' | 'clock' | 'servers'> & Partial<ManyServersParts>;

export function coordinationOf(chosen: Chosen): Coordination {
  const defaults = { log: SILENT, leaseMs: LEASE_MS, held: new HeldClaims(), fence: OPEN_FENCE };
  const parts = { ...defaults, notifications: NO_NOTIFICATIONS, ...chosen };
  return kindOf(chosen.db) === 'sqlite' ? oneServer(parts) : manyServers(parts);
}

/** The locks that a server of this database has. */
export function contentLocksOf({ db, transactions }: { db: Database; transactions: Transactions }): ContentLocks {
  return kindOf(db) === 'sqlite' ? queuedContentLocks() : sharedContentLocks(transactions);
}
