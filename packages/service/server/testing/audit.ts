import type { ApiKeyId, OrgId, Scope } from '@cloche/contract';
import { SequentialIds } from '@cloche/testkit';
import { pino } from 'pino';
import { MarkSigner } from '../src/platform/audit-log/audit-chain.ts';
import { AuditFeed } from '../src/platform/audit-log/audit-feed.ts';
import { AuditLog, type NewAuditEvent } from '../src/platform/audit-log/audit-log.ts';
import { AuditRetention } from '../src/platform/audit-log/audit-retention.ts';
import { Refusals } from '../src/platform/audit-log/refusals.ts';
import { VerifyChain } from '../src/platform/audit-log/verify-chain.ts';
import { Transactions } from '../src/platform/db/transactions.ts';
import { openTestDatabase } from './test-database.ts';

export const ORG = 'org_1' as OrgId;
export const KEY = 'key_1' as ApiKeyId;
export const START = Date.parse('2026-01-01T00:00:00Z');
export const credential = { apiKeyId: KEY, orgId: ORG, scopes: new Set<Scope>(), projectIds: undefined };
export const origin = { credential, requestId: 'req_1', ip: '192.0.2.1' };

export function created(id: string, orgId = ORG): NewAuditEvent {
  const actor = { type: 'api_key', id: KEY } as const;
  return { orgId, actor, action: 'sandbox.created', target: { type: 'sandbox', id }, outcome: 'allowed' };
}

export async function openAudit() {
  const db = await openTestDatabase();
  const transactions = new Transactions(db);
  const clock = { at: START, now: () => clock.at };
  const signer = new MarkSigner(Buffer.alloc(32, 1));
  const log = new AuditLog({ db, transactions, clock, ids: new SequentialIds(), signer });
  return {
    db,
    transactions,
    clock,
    log,
    feed: new AuditFeed(db),
    verify: () => new VerifyChain(db, signer).verify(ORG),
    retention: new AuditRetention(db, transactions, signer),
    refusals: new Refusals({ log, clock, logger: pino({ level: 'silent' }) }),
    async fill(count: number) {
      await transactions.run(async (tx) => {
        for (let index = 1; index <= count; index += 1) await log.append(created(`sbx_${index}`), tx);
      });
    },
    events: async () => (await new AuditFeed(db).read({ orgId: ORG }, 0, 500)).data,
    [Symbol.asyncDispose]: () => db.destroy(),
  };
}
