import assert from 'node:assert/strict';
import { afterEach, beforeEach, describe, it } from 'node:test';
import type { OrgId } from '@cloche/contract';
import { apiKeyServiceOf } from '../../../testing/api-key-service.ts';
import { openTestDatabase } from '../../../testing/test-database.ts';
import type { ApiKeyService } from '../../features/api-keys/api-key-service.ts';
import { MarkSigner } from '../audit-log/audit-chain.ts';
import { AuditLog } from '../audit-log/audit-log.ts';
import { ExpiredKeys } from '../audit-log/expired-keys.ts';
import { randomIds } from '../base/id-source.ts';
import type { Database } from '../db/database.ts';
import { Transactions } from '../db/transactions.ts';
import { OrgRepository } from '../tenancy/org-repository.ts';
import { SqlApiKeyRepository } from './api-key-repository.ts';
import { Authenticator } from './authenticator.ts';
import { EndedKeys } from './ended-keys.ts';

const DAY_MS = 86_400_000;

let now: number;
let db: Database;
let orgId: OrgId;
let service: ApiKeyService;
let endedKeys: EndedKeys;
let expiredKeys: ExpiredKeys;
const clock = { now: () => now };

beforeEach(async () => {
  now = Date.parse('2026-01-01T00:00:00.000Z');
  db = await openTestDatabase();
  orgId = (await new OrgRepository(db, clock, randomIds).ensureFirst()).id;
  const keys = new SqlApiKeyRepository(db);
  const authenticator = new Authenticator(keys, clock);
  service = apiKeyServiceOf(db, { keys, authenticator, clock });
  const transactions = new Transactions(db);
  endedKeys = new EndedKeys(db, transactions);
  const signer = new MarkSigner(Buffer.alloc(32, 1));
  const log = new AuditLog({ db, transactions, clock, ids: randomIds, signer });
  expiredKeys = new ExpiredKeys({ db, transactions, log, clock });
});
afterEach(() => db.destroy());

const make = async (name: string, expiresInMs?: number) =>
  (await service.create({ orgId, name, scopes: ['*'], expiresInMs })).apiKey.id;
const names = async () =>
  (await db.selectFrom('api_keys').select('name').orderBy('name').execute()).map(({ name }) => name);
const forget = () => endedKeys.forget(now - 30 * DAY_MS);

async function insertPreviewOf(keyId: string): Promise<void> {
  const { id: projectId } = await db.selectFrom('projects').select('id').executeTakeFirstOrThrow();
  const sandbox = {
    ...{ id: 'sbx_1', org_id: orgId, project_id: projectId, status: 'destroyed' as const, generation: 1, used: 1 },
    ...{ template_id: 't', template_slug: 't', template_version: '1', template_version_id: 'v' },
    ...{
      ttl_ms: 1,
      expires_at: now,
      created_at: now,
      planned_at: now,
      metadata: '{}',
      env: '{}',
      network_policy: '{}',
      resources: '{}',
    },
    ...{ cpu_millis: 0, memory_mb: 0 },
  };
  await db.insertInto('sandboxes').values(sandbox).execute();
  const ids = { id: 'prv_1', org_id: orgId, project_id: projectId, sandbox_id: sandbox.id, api_key_id: keyId };
  const preview = { ...ids, port: 8000, visibility: 'private' as const, created_at: now };
  await db.insertInto('previews').values(preview).execute();
}

describe('a key that was revoked or has expired', () => {
  it('a key that was revoked or has expired can be looked up for its time, and then leaves no record behind', async () => {
    await make('working');
    await make('expires later', 100 * DAY_MS);
    await make('expired', DAY_MS);
    await service.revoke(await make('revoked'));
    now += DAY_MS;
    await expiredKeys.record();
    now += 29 * DAY_MS;
    assert.equal(await forget(), 0);
    now += 1;
    assert.equal(await forget(), 1);
    now += DAY_MS;
    assert.equal(await forget(), 1);
    assert.deepEqual(await names(), ['expires later', 'working']);
    assert.deepEqual(await db.selectFrom('audited_expiries').selectAll().execute(), []);
    const audited = await db.selectFrom('audit_events').select('action').execute();
    assert.equal(audited.filter(({ action }) => action === 'api_key.expired').length, 1);
    assert.equal(audited.filter(({ action }) => action === 'api_key.created').length, 4);
  });

  it('a key that was revoked or has expired stays until the audit log has its expiry', async () => {
    await make('expired', DAY_MS);
    now += 100 * DAY_MS;
    assert.equal(await forget(), 0);
    await expiredKeys.record();
    assert.equal(await forget(), 1);
  });

  it('a key that was revoked or has expired stays while there is a record of a preview that it created', async () => {
    const id = await make('revoked');
    await insertPreviewOf(id);
    await service.revoke(id);
    now += 100 * DAY_MS;
    assert.equal(await forget(), 0);
    await db.deleteFrom('previews').execute();
    assert.equal(await forget(), 1);
  });

  it('a key that was revoked or has expired stays if it was in the settings, so that the same settings do not make a rotated key work again', async () => {
    await service.bootstrap(orgId, 'a'.repeat(20));
    await service.bootstrap(orgId, undefined);
    now += 100 * DAY_MS;
    assert.equal(await forget(), 0);
    assert.deepEqual(await names(), ['bootstrap']);
  });

  it('a key that was revoked or has expired is deleted in batches, however many there are', async () => {
    for (let count = 0; count < 250; count += 1) await service.revoke(await make(`key ${count}`));
    await make('working');
    now += 100 * DAY_MS;
    assert.equal(await forget(), 250);
    assert.deepEqual(await names(), ['working']);
  });
});
