import type { Logger } from 'pino';
import { auditRoutes } from '../features/audit/audit-routes.ts';
import type { ProjectAccess } from '../platform/access/project-access.ts';
import { MarkSigner } from '../platform/audit-log/audit-chain.ts';
import { AuditFeed } from '../platform/audit-log/audit-feed.ts';
import { AuditLog } from '../platform/audit-log/audit-log.ts';
import { AuditRetention } from '../platform/audit-log/audit-retention.ts';
import { ExpiredKeys } from '../platform/audit-log/expired-keys.ts';
import { Refusals } from '../platform/audit-log/refusals.ts';
import { VerifyChain } from '../platform/audit-log/verify-chain.ts';
import type { Clock } from '../platform/base/clock.ts';
import type { IdSource } from '../platform/base/id-source.ts';
import { Loop } from '../platform/base/loop.ts';
import type { Database } from '../platform/db/database.ts';
import { serverSecret } from '../platform/db/server-secret.ts';
import type { Transactions } from '../platform/db/transactions.ts';
import type { Route } from '../platform/http/route.ts';

const UPKEEP_MS = 60_000;

export interface AuditDeps {
  readonly db: Database;
  readonly transactions: Transactions;
  readonly clock: Clock;
  readonly ids: IdSource;
  readonly log: Logger;
  readonly projects: ProjectAccess;
  readonly retentionMs: number;
}

export interface Audit {
  readonly auditLog: AuditLog;
  readonly refusals: Refusals;
  readonly auditFeed: AuditFeed;
  readonly verifyChain: VerifyChain;
  readonly routes: Route[];
  /** Starts to record expired keys and to delete old events. Call `stop` in the end, before the database closes. */
  start(): { stop(): Promise<void> };
}

export async function composeAudit(deps: AuditDeps): Promise<Audit> {
  const { db, transactions, clock, log, projects, retentionMs } = deps;
  const signer = new MarkSigner(await serverSecret(db, 'audit'));
  const auditLog = new AuditLog({ ...deps, signer });
  const refusals = new Refusals({ log: auditLog, clock, logger: log });
  const expiredKeys = new ExpiredKeys({ db, transactions, log: auditLog, clock });
  const retention = new AuditRetention(db, transactions, signer);
  const auditFeed = new AuditFeed(db);
  const upkeep = async () => {
    await refusals.flush();
    await expiredKeys.record();
    await retention.forget(clock.now() - retentionMs);
    return UPKEEP_MS;
  };
  return {
    auditLog,
    refusals,
    auditFeed,
    verifyChain: new VerifyChain(db, signer),
    routes: auditRoutes(auditFeed, projects),
    start() {
      const loop = new Loop('audit', upkeep, UPKEEP_MS, log);
      return {
        async stop() {
          await loop.stop();
          await refusals.flush(true);
        },
      };
    },
  };
}
