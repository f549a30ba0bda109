import type { SandboxId } from '@cloche/contract';
import { SandboxUsages } from '../src/features/metering/sandbox-usages.ts';
import { StartedWork } from '../src/features/metering/started-work.ts';
import { Executions } from '../src/features/sandbox-records/executions.ts';
import { SqlSandboxRepository } from '../src/features/sandbox-records/sql-sandbox-repository.ts';
import { Changes } from '../src/platform/base/changes.ts';
import { Transactions } from '../src/platform/db/transactions.ts';
import { EventOutbox } from '../src/platform/outbox/event-outbox.ts';
import type { SandboxesWorld } from './sandboxes.ts';

/** A repository of its own over the records of `world`, or over those of another database. */
export function repositoryOf(
  { db: own, clock, ids, serverId, settings }: SandboxesWorld,
  db = own,
): SqlSandboxRepository {
  const changes = new Changes<SandboxId>();
  const transactions = new Transactions(db);
  return new SqlSandboxRepository({
    db,
    transactions,
    usages: new SandboxUsages({ db, transactions, clock, startedWork: new StartedWork() }),
    outbox: new EventOutbox(db, clock, ids),
    changes,
    activity: new Executions(clock, changes),
    clock,
    serverId,
    pauseRetentionMs: settings.pauseRetentionMs,
  });
}
