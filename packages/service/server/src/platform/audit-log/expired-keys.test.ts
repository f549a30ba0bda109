/** Every key that ends has an audit event of its end. */
import assert from 'node:assert/strict';
import { afterEach, beforeEach, describe, it } from 'node:test';
import { AUDIT_ACTIONS, type OrgId } from '@cloche/contract';
import { apiKeyServiceOf } from '../../../testing/api-key-service.ts';
import { callOf } from '../../../testing/call.ts';
import { openTestDatabase } from '../../../testing/test-database.ts';
import type { ApiKeyService } from '../../features/api-keys/api-key-service.ts';
import { ManageApiKeys } from '../../features/api-keys/manage-api-keys.ts';
import { randomIds } from '../base/id-source.ts';
import type { Call } from '../call/call.ts';
import type { Database } from '../db/database.ts';
import { Transactions } from '../db/transactions.ts';
import { SqlApiKeyRepository } from '../keys/api-key-repository.ts';
import { Authenticator } from '../keys/authenticator.ts';
import type { Credential } from '../keys/credential.ts';
import { EndKeyWork } from '../keys/end-key-work.ts';
import { EventOutbox } from '../outbox/event-outbox.ts';
import { OrgRepository } from '../tenancy/org-repository.ts';
import { SqlProjectRepository } from '../tenancy/project-repository.ts';
import { MarkSigner } from './audit-chain.ts';
import { AuditFeed } from './audit-feed.ts';
import { AuditLog } from './audit-log.ts';
import { ExpiredKeys } from './expired-keys.ts';
import { RequestAudit } from './request-audit.ts';

let now: number;
let db: Database;
let orgId: OrgId;
let log: AuditLog;
let operator: ApiKeyService;
let manage: ManageApiKeys;
let caller: Credential;
let expiredKeys: () => ExpiredKeys;
const clock = { now: () => now };

beforeEach(async () => {
  now = Date.parse('2026-01-01T00:00:00.000Z');
  db = await openTestDatabase();
  const orgs = new OrgRepository(db, clock, randomIds);
  orgId = (await orgs.ensureFirst()).id;
  const keys = new SqlApiKeyRepository(db);
  const projects = new SqlProjectRepository(db);
  const authenticator = new Authenticator(keys, clock);
  const transactions = new Transactions(db);
  const shared = { db, transactions, clock, ids: randomIds };
  log = new AuditLog({ ...shared, signer: new MarkSigner(Buffer.alloc(32, 1)) });
  expiredKeys = () => new ExpiredKeys({ ...shared, log });
  operator = apiKeyServiceOf(db, { keys, authenticator, clock });
  manage = new ManageApiKeys({
    ...shared,
    keys,
    orgs,
    projects,
    authenticator,
    endKeyWork: new EndKeyWork({ keys, authenticator, clock, open: [] }),
    outbox: new EventOutbox(db, clock, randomIds),
  });
  const { secret } = await operator.create({ orgId, name: 'caller', scopes: ['*'] });
  caller = await authenticator.authenticate(secret);
});
afterEach(() => db.destroy());

/** Returns a request of the caller, with its audit event. */
function requestOf(operation: 'createApiKey' | 'rotateApiKey' | 'revokeApiKey', recordId?: string): Call {
  const action = AUDIT_ACTIONS[operation];
  assert.ok(action !== 'none');
  const audit = new RequestAudit(log, { credential: caller, requestId: 'req_1', ip: '192.0.2.1' }, action);
  return callOf({ credential: caller, audit, ...(recordId !== undefined && { idempotency: { recordId } }) });
}

/** Returns actions and actors of the events of a key. */
async function eventsOf(target: string): Promise<string[]> {
  const { data } = await new AuditFeed(db).read({ orgId, target }, 0, 100);
  return data.map(({ action, actor }) => `${action} by ${actor.type}`);
}

describe('the audit event of a key that ends', () => {
  it('the audit event of a key that ends is one when it expires, also if several servers look at once and again', async () => {
    const { apiKey } = await operator.create({ orgId, name: 'short', scopes: ['*'], expiresInMs: 1000 });
    now += 999;
    await expiredKeys().record();
    assert.deepEqual(await eventsOf(apiKey.id), ['api_key.created by operator']);
    now += 1;
    await Promise.all([expiredKeys().record(), expiredKeys().record()]);
    await expiredKeys().record();
    assert.deepEqual(await eventsOf(apiKey.id), ['api_key.created by operator', 'api_key.expired by system']);
  });

  it('the audit event of a key that ends exists for each of many keys that expire at once', async () => {
    const made = [];
    for (let count = 0; count < 150; count += 1) {
      made.push((await operator.create({ orgId, name: 'short', scopes: ['*'], expiresInMs: 1000 })).apiKey.id);
    }
    now += 1000;
    await expiredKeys().record();
    for (const id of made) assert.equal((await eventsOf(id)).length, 2);
  });

  it('the audit event of a key that ends exists for a rotated key at the end of its grace', async () => {
    const { apiKey } = await manage.create(requestOf('createApiKey'), { name: 'x', scopes: ['code:run'] });
    await manage.rotate(requestOf('rotateApiKey'), apiKey.id, { graceMs: 1000 });
    now += 1000;
    await expiredKeys().record();
    assert.deepEqual(await eventsOf(apiKey.id), [
      'api_key.created by api_key',
      'api_key.rotated by api_key',
      'api_key.expired by system',
    ]);
  });

  it('the audit event of a key that ends is its revocation alone, if a revoked key would have expired later', async () => {
    const { apiKey } = await operator.create({ orgId, name: 'short', scopes: ['*'], expiresInMs: 1000 });
    await manage.revoke(requestOf('revokeApiKey'), apiKey.id);
    now += 1000;
    await expiredKeys().record();
    assert.deepEqual(await eventsOf(apiKey.id), ['api_key.created by operator', 'api_key.revoked by api_key']);
  });

  it('the audit event of a key that ends exists for the key of an interrupted attempt, which the next attempt revokes', async () => {
    const body = { name: 'x', scopes: ['code:run' as const] };
    const lost = await manage.create(requestOf('createApiKey', 'idem_1'), body);
    const kept = await manage.create(requestOf('createApiKey', 'idem_1'), body);
    assert.deepEqual(await eventsOf(lost.apiKey.id), ['api_key.created by api_key', 'api_key.revoked by api_key']);
    assert.deepEqual(await eventsOf(kept.apiKey.id), ['api_key.created by api_key']);
    const lostSuccessor = await manage.rotate(requestOf('rotateApiKey', 'idem_2'), kept.apiKey.id, {});
    await manage.rotate(requestOf('rotateApiKey', 'idem_2'), kept.apiKey.id, {});
    assert.deepEqual(await eventsOf(lostSuccessor.apiKey.id), [
      'api_key.created by api_key',
      'api_key.revoked by api_key',
    ]);
  });
});
