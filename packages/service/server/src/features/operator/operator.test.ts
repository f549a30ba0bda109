import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { METHODS, request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import type { AuditEvent, OrgId } from '@cloche/contract';
import type { AuditVerification } from '@cloche/protocol';
import type { FastifyInstance } from 'fastify';
import { pino } from 'pino';
import { apiKeyServiceOf } from '../../../testing/api-key-service.ts';
import { openTestDatabase } from '../../../testing/test-database.ts';
import { MarkSigner } from '../../platform/audit-log/audit-chain.ts';
import { AuditFeed } from '../../platform/audit-log/audit-feed.ts';
import { AuditLog } from '../../platform/audit-log/audit-log.ts';
import { VerifyChain } from '../../platform/audit-log/verify-chain.ts';
import { systemClock } from '../../platform/base/clock.ts';
import { randomIds } from '../../platform/base/id-source.ts';
import type { Database } from '../../platform/db/database.ts';
import { Transactions } from '../../platform/db/transactions.ts';
import { SqlApiKeyRepository } from '../../platform/keys/api-key-repository.ts';
import { Authenticator } from '../../platform/keys/authenticator.ts';
import { EventOutbox } from '../../platform/outbox/event-outbox.ts';
import { OrgRepository } from '../../platform/tenancy/org-repository.ts';
import { Quotas } from '../quotas/quotas.ts';
import { buildOperatorApp, listenForOperator } from './operator-app.ts';

const folder = mkdtempSync(join(tmpdir(), 'cloche-operator-'));
const socketPath = join(folder, 'server', 'operator.sock');
let db: Database;
let keys: SqlApiKeyRepository;
let authenticator: Authenticator;
let transactions: Transactions;
const signer = new MarkSigner(Buffer.alloc(32, 1));
let app: FastifyInstance;

function makeApp(): FastifyInstance {
  return buildOperatorApp({
    orgs: new OrgRepository(db, systemClock, randomIds),
    apiKeys: apiKeyServiceOf(db, { keys, authenticator, clock: systemClock }),
    quotas: new Quotas({
      db,
      transactions: new Transactions(db),
      outbox: new EventOutbox(db, systemClock, randomIds),
      clock: systemClock,
      defaults: { previews: 9 },
    }),
    reconcile: async () => ({ instancesRemoved: 1, sandboxesEnded: 2 }),
    destroyAll: async () => 3,
    rotateSecrets: async () => 4,
    auditLog: new AuditLog({ db, transactions, clock: systemClock, ids: randomIds, signer }),
    auditFeed: new AuditFeed(db),
    verifyChain: new VerifyChain(db, signer),
    clock: systemClock,
    ids: randomIds,
    log: pino({ level: 'silent' }),
  });
}

before(async () => {
  db = await openTestDatabase();
  keys = new SqlApiKeyRepository(db);
  authenticator = new Authenticator(keys, systemClock);
  transactions = new Transactions(db);
  app = makeApp();
  await listenForOperator(app, socketPath);
});
after(async () => {
  await app.close();
  await db.destroy();
  rmSync(folder, { recursive: true, force: true });
});

// biome-ignore lint/suspicious/noExplicitAny: a body is asserted on, field by field
function call(method: string, path: string, body?: unknown): Promise<{ status: number | undefined; body: any }> {
  return new Promise((resolve, reject) => {
    const headers = body === undefined ? {} : { 'content-type': 'application/json' };
    const sent = request({ socketPath, method, path, headers, agent: false }, async (response) => {
      const text = (await response.setEncoding('utf8').toArray()).join('');
      const isLines = response.headers['content-type']?.startsWith('application/x-ndjson');
      resolve({ status: response.statusCode, body: isLines ? parseLines(text) : JSON.parse(text) });
    });
    sent.once('error', reject);
    sent.end(body === undefined ? undefined : JSON.stringify(body));
  });
}

function parseLines(text: string): unknown[] {
  return text
    .split('\n')
    .slice(0, -1)
    .map((line) => JSON.parse(line));
}

describe("the operator's socket", () => {
  it("the operator's socket answers the server's user alone", () => {
    assert.equal(statSync(socketPath).mode & 0o777, 0o600);
    assert.equal(statSync(join(folder, 'server')).mode & 0o777, 0o700);
  });

  it("the operator's socket takes the place of one that was left behind", async () => {
    const left = join(folder, 'left.sock');
    writeFileSync(left, '');
    const other = makeApp();
    await listenForOperator(other, left);
    assert.ok(statSync(left).isSocket());
    await other.close();
  });

  it("the operator's socket makes the first key once", async () => {
    const first = await call('POST', '/first-key');
    assert.equal(first.status, 201);
    await authenticator.authenticate(first.body.key.secret);
    const second = await call('POST', '/first-key');
    assert.deepEqual([second.status, second.body.error.code], [409, 'conflict']);
  });

  it("the operator's socket sets limits of an organization, one by one, over those of the settings", async () => {
    await call('POST', '/orgs', { name: 'limited' });
    const limitsAfter = async (changes: object) => {
      const { status, body } = await call('PATCH', '/orgs/limited/quotas', changes);
      assert.equal(status, 200);
      assert.deepEqual((await call('GET', '/orgs/limited/quotas')).body, body);
      const set = body.data.filter(({ limit }: { limit: number | null }) => limit !== null);
      return set.map(({ quota, limit }: { quota: string; limit: number }) => `${quota}=${limit}`);
    };
    assert.deepEqual(await limitsAfter({ liveSandboxes: 5 }), ['liveSandboxes=5', 'previews=9']);
    assert.deepEqual(await limitsAfter({ previews: 20 }), ['liveSandboxes=5', 'previews=20']);
    assert.deepEqual(await limitsAfter({ liveSandboxes: null, previews: null }), ['previews=9']);
    for (const wrong of [{ sandboxes: 1 }, { previews: -1 }, { previews: 1.5 }, { previews: '1' }]) {
      assert.equal((await call('PATCH', '/orgs/limited/quotas', wrong)).status, 400);
    }
    assert.equal((await call('PATCH', '/orgs/none/quotas', { previews: 1 })).status, 404);
  });

  it("the operator's socket makes organizations and keys of them", async () => {
    const { org } = (await call('POST', '/orgs', { name: 'acme' })).body;
    const made = await call('POST', '/keys', {
      org: 'acme',
      scopes: ['code:run'],
      projectIds: [org.defaultProjectId],
      expiresInMs: 60_000,
    });
    assert.deepEqual(
      [made.status, made.body.key.orgId, made.body.key.projectIds, typeof made.body.key.expiresAt],
      [201, org.id, [org.defaultProjectId], 'string'],
    );
    assert.equal((await authenticator.authenticate(made.body.key.secret)).orgId, org.id);
    assert.ok((await call('GET', '/orgs')).body.data.some(({ id }: { id: string }) => id === org.id));
  });

  it("the operator's socket revokes a key of any organization, once", async () => {
    const { org } = (await call('POST', '/orgs', { name: 'revoking' })).body;
    const { key } = (await call('POST', '/keys', { org: 'revoking', scopes: ['*'] })).body;
    assert.equal((await authenticator.authenticate(key.secret)).orgId, org.id);
    for (let time = 0; time < 2; time += 1) {
      const { status, body } = await call('POST', `/keys/${key.id}/revoke`);
      assert.deepEqual([status, body], [200, { key: { id: key.id } }]);
      await assert.rejects(authenticator.authenticate(key.secret), { code: 'unauthorized' });
    }
    const { body: events } = await call('GET', '/audit/export?org=revoking');
    const revocations = events.filter(({ action }: AuditEvent) => action === 'api_key.revoked');
    assert.deepEqual(
      revocations.map(({ actor, target }: AuditEvent) => [actor.type, target.id]),
      [['operator', key.id]],
    );
    assert.ok(revocations[0].requestId);
  });

  it("the operator's socket makes a key of the first organization where none is named", async () => {
    const { data } = (await call('GET', '/orgs')).body;
    assert.equal((await call('POST', '/keys', { scopes: ['*'] })).body.key.orgId, data[0].id);
  });

  it("the operator's socket names what is wrong", async () => {
    const cases: [string, unknown, number, RegExp][] = [
      ['/keys', { scopes: [] }, 400, /body.scopes must have at least 1/],
      ['/keys', { scopes: ['fly'] }, 400, /"fly"/],
      ['/keys', { scopes: ['*'], org: 'nobody' }, 404, /no organization "nobody"; `cloche admin org list`/],
      ['/keys', { scopes: ['*'], projectIds: ['prj_x'] }, 404, /The organization has no project "prj_x"/],
      ['/keys/key_x/revoke', undefined, 404, /no API key "key_x"/],
      ['/orgs', undefined, 400, /body is required/],
      ['/nothing', undefined, 404, /does not exist/],
    ];
    for (const [path, body, status, message] of cases) {
      const answer = await call('POST', path, body);
      assert.equal(answer.status, status, path);
      assert.match(answer.body.error.message, message);
    }
  });

  it("the operator's socket refuses every method that a path has not", async () => {
    for (const method of METHODS) {
      if (['CONNECT', 'GET', 'HEAD', 'POST'].includes(method)) continue;
      assert.equal((await call(method, '/keys')).body.error.code, 'method_not_allowed', method);
      assert.equal((await call(method, '/nothing')).body.error.code, 'not_found', method);
    }
  });

  it('reconciles and takes sandboxes down', async () => {
    assert.deepEqual((await call('POST', '/reconcile')).body, { instancesRemoved: 1, sandboxesEnded: 2 });
    assert.deepEqual((await call('POST', '/destroy-all')).body, { destroyed: 3 });
    assert.deepEqual((await call('POST', '/rotate-secrets')).body, { rotated: 4 });
  });

  it("the operator's socket exports what it changed as audit events of the organization, and verifies them", async () => {
    const { org } = (await call('POST', '/orgs', { name: 'audited' })).body;
    const { key } = (await call('POST', '/keys', { org: 'audited', scopes: ['*'] })).body;
    const { body: events } = await call('GET', '/audit/export?org=audited');
    assert.deepEqual(
      events.map(({ actor, action, target }: AuditEvent) => [actor.type, action, target.id]),
      [
        ['operator', 'organization.created', org.id],
        ['operator', 'api_key.created', key.id],
      ],
    );
    const { body: verified } = await call('GET', `/audit/verify?org=${org.id}`);
    assert.deepEqual([verified.events, verified.lastHash, verified.problems], [2, events[1].hash, []]);
    await db.deleteFrom('audit_events').where('id', '=', events[0].id).execute();
    const { problems } = (await call('GET', '/audit/verify?org=audited')).body;
    assert.deepEqual([problems[0].seq, problems[0].kind], [1, 'removed']);
  });

  it('the operator verifies the audit events of every organization if none is named, also of one whose row was removed', async () => {
    const { org } = (await call('POST', '/orgs', { name: 'verified with all' })).body;
    const lost = 'org_without_row' as OrgId;
    const log = new AuditLog({ db, transactions, clock: { now: () => 0 }, ids: randomIds, signer });
    const actor = { type: 'system', id: 'system' } as const;
    for (const id of ['sbx_1', 'sbx_2'])
      await log.append({ orgId: lost, actor, action: 'a', target: { type: 'sandbox', id }, outcome: 'allowed' });
    await db.deleteFrom('audit_events').where('org_id', '=', lost).where('seq', '=', 1).execute();
    const { data } = (await call('GET', '/audit/verify')).body;
    const problems = new Map(data.map((each: AuditVerification) => [each.orgId, each.problemCount]));
    assert.deepEqual([problems.get(org.id), problems.get(lost)], [0, 1]);
  });

  it("the operator's socket exports more events than fit in a page, and only those of a time", async () => {
    const { org } = (await call('POST', '/orgs', { name: 'many events' })).body;
    const log = new AuditLog({
      db,
      transactions,
      clock: { now: () => Date.parse('2026-01-01') },
      ids: randomIds,
      signer,
    });
    const actor = { type: 'system', id: 'system' } as const;
    const target = { type: 'sandbox', id: 'sbx_1' };
    for (let count = 0; count < 1100; count += 1) {
      await log.append({ orgId: org.id, actor, action: 'sandbox.created', target, outcome: 'allowed' });
    }
    const count = async (query: string) => (await call('GET', `/audit/export?org=${org.id}${query}`)).body.length;
    assert.equal(await count(''), 1101);
    assert.equal(await count('&to=2026-01-02T00:00:00Z'), 1100);
    assert.equal(await count('&from=2026-01-02T00:00:00Z'), 1);
    const wrong = await call('GET', '/audit/export?org=audited&from=yesterday');
    assert.deepEqual([wrong.status, wrong.body.error.code], [400, 'invalid_request']);
    assert.equal((await call('GET', '/audit/verify?org=unknown')).status, 404);
  });
});
