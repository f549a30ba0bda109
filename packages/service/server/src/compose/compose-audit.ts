import type { Logger } from 'pino';
import { auditRoutes } from '../audit/api/audit-routes.ts';
import { MarkSigner } from '../audit/audit-chain.ts';
import { AuditFeed } from '../audit/audit-feed.ts';
import { AuditLog } from '../audit/audit-log.ts';
import { AuditRetention } from '../audit/audit-retention.ts';
import { ExpiredKeys } from '../audit/expired-keys.ts';
import { Refusals } from '../audit/refusals.ts';
import { VerifyChain } from '../audit/verify-chain.ts';
import type { Clock } from '../base/clock.ts';
import type { IdSource } from '../base/id-source.ts';
import { Loop } from '../base/loop.ts';
import type { Database } from '../db/database.ts';
import { serverSecret } from '../db/server-secret.ts';
import type { Transactions } from '../db/transactions.ts';
import type { Route } from '../http/route.ts';
import type { ProjectAccess } from '../projects/access/project-access.ts';

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
