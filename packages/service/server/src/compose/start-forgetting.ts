import type { Logger } from 'pino';
import type { SqlMcpSessions } from '../features/mcp-sessions/sql-mcp-sessions.ts';
import type { Clock } from '../platform/base/clock.ts';
import { Loop } from '../platform/base/loop.ts';
import type { Database } from '../platform/db/database.ts';
import type { Transactions } from '../platform/db/transactions.ts';
import { DeletedRecords } from '../platform/tenancy/deleted-records.ts';
import type { Config } from './config.ts';

const FORGET_MS = 3_600_000;
const RETRY_MS = 60_000;

export interface ForgettingDeps {
  readonly db: Database;
  readonly transactions: Transactions;
  readonly clock: Clock;
  readonly log: Logger;
  readonly isFenced: () => boolean;
  readonly mcpSessions: Pick<SqlMcpSessions, 'forget'>;
}

/**
 * Starts to delete, every hour, what clients deleted a retention ago, and sessions that they do not use any more. The
 * caller stops the loop.
 */
export function startForgetting(
  {
    sandboxes,
    auditRetentionMs,
  }: Pick<Config, 'auditRetentionMs'> & {
    sandboxes: Pick<Config['sandboxes'], 'eventRetentionMs' | 'recordRetentionMs'>;
  },
  { db, transactions, clock, log, isFenced, mcpSessions }: ForgettingDeps,
): Loop {
  const { recordRetentionMs: recordMs, eventRetentionMs: eventMs } = sandboxes;
  const records = new DeletedRecords(db, transactions, { recordMs, eventMs, auditMs: auditRetentionMs });
  const forget = async () => {
    if (isFenced()) return RETRY_MS;
    const forgotten = (await records.forget(clock.now())) + (await mcpSessions.forget());
    if (forgotten > 0) log.info({ forgotten }, 'records of deleted resources removed');
    return FORGET_MS;
  };
  return new Loop('forget deleted', forget, RETRY_MS, log);
}
