/** Makes the operator's service of API keys over a database. */
import { ApiKeyService, type ApiKeyServiceDeps } from '../src/features/api-keys/api-key-service.ts';
import { MarkSigner } from '../src/platform/audit-log/audit-chain.ts';
import { AuditLog } from '../src/platform/audit-log/audit-log.ts';
import { randomIds } from '../src/platform/base/id-source.ts';
import type { Database } from '../src/platform/db/database.ts';
import { Transactions } from '../src/platform/db/transactions.ts';
import { EventOutbox } from '../src/platform/outbox/event-outbox.ts';
import { SqlProjectRepository } from '../src/platform/tenancy/project-repository.ts';

type Given = Pick<ApiKeyServiceDeps, 'keys' | 'authenticator' | 'clock'>;

export function apiKeyServiceOf(db: Database, given: Given): ApiKeyService {
  const transactions = new Transactions(db);
  const signer = new MarkSigner(Buffer.alloc(32, 1));
  const shared = { ...given, transactions, ids: randomIds };
  return new ApiKeyService({
    ...shared,
    projects: new SqlProjectRepository(db),
    outbox: new EventOutbox(db, given.clock, randomIds),
    auditLog: new AuditLog({ ...shared, db, signer }),
  });
}
