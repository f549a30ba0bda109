import assert from 'node:assert/strict';
import { afterEach, beforeEach, describe, it } from 'node:test';
import { type ApiKeyId, type CreateApiKeyBody, type ErrorCode, LIMITS, type OrgId } from '@cloche/contract';
import { apiKeyServiceOf } from '../../../testing/api-key-service.ts';
import { callOf } from '../../../testing/call.ts';
import { DATABASE_KIND, openTestDatabase } from '../../../testing/test-database.ts';
import { AppError } from '../../platform/base/app-error.ts';
import { randomIds } from '../../platform/base/id-source.ts';
import type { Database } from '../../platform/db/database.ts';
import { Transactions } from '../../platform/db/transactions.ts';
import { InFlight } from '../../platform/http/in-flight.ts';
import { IdempotencyRepository } from '../../platform/idempotency/idempotency-repository.ts';
import type { Attempt } from '../../platform/idempotency/require-claim.ts';
import { SqlApiKeyRepository } from '../../platform/keys/api-key-repository.ts';
import { Authenticator } from '../../platform/keys/authenticator.ts';
import type { Credential } from '../../platform/keys/credential.ts';
import { EndKeyWork } from '../../platform/keys/end-key-work.ts';
import { EventOutbox } from '../../platform/outbox/event-outbox.ts';
import { OrgRepository } from '../../platform/tenancy/org-repository.ts';
import { SqlProjectRepository } from '../../platform/tenancy/project-repository.ts';
import type { ApiKeyService } from './api-key-service.ts';
import { type KeyWithSecret, ManageApiKeys } from './manage-api-keys.ts';

const DAY_MS = 86_400_000;

let now: number;
let db: Database;
let orgs: OrgRepository;
let orgId: OrgId;
let authenticator: Authenticator;
let operator: ApiKeyService;
let manage: ManageApiKeys;
let outbox: EventOutbox;
const clock = { now: () => now };
const { signal } = new AbortController();

afterEach(() => db.destroy());
beforeEach(async () => {
  now = Date.parse('2026-01-01T00:00:00.000Z');
  db = await openTestDatabase();
  orgs = new OrgRepository(db, clock, randomIds);
  orgId = (await orgs.ensureFirst()).id;
  const keys = new SqlApiKeyRepository(db);
  const projects = new SqlProjectRepository(db);
  authenticator = new Authenticator(keys, clock);
  operator = apiKeyServiceOf(db, { keys, authenticator, clock });
  const endKeyWork = new EndKeyWork({ keys, authenticator, clock, open: [] });
  outbox = new EventOutbox(db, clock, randomIds);
  const transactions = new Transactions(db);
  manage = new ManageApiKeys({
    keys,
    orgs,
    projects,
    authenticator,
    endKeyWork,
    transactions,
    outbox,
    clock,
    ids: randomIds,
  });
});

async function project(name: string): Promise<`prj_${string}`> {
  const id = randomIds.next('prj_');
  const row = {
    ...(await db.selectFrom('projects').selectAll().executeTakeFirstOrThrow()),
    id,
    name,
    name_key: name,
    is_default: 0,
  };
  await db.insertInto('projects').values(row).execute();
  return id;
}

async function callerWith(extra: object = {}): Promise<Credential> {
  const { secret } = await operator.create({ orgId, name: 'caller', scopes: ['*'], ...extra });
  return authenticator.authenticate(secret);
}

function create(
  credential: Credential,
  extra: Partial<CreateApiKeyBody> = {},
  record?: string,
): Promise<KeyWithSecret> {
  const body: CreateApiKeyBody = { name: 'new', scopes: ['code:run'], ...extra };
  return manage.create(callOf({ credential, idempotency: attemptOf(record), signal }), body);
}

function rotate(credential: Credential, id: ApiKeyId, graceMs?: number, record?: string): Promise<KeyWithSecret> {
  const body = graceMs === undefined ? {} : { graceMs };
  return manage.rotate(callOf({ credential, idempotency: attemptOf(record), signal }), id, body);
}

const revoke = (credential: Credential, id: ApiKeyId) => manage.revoke(callOf({ credential, signal }), id);

async function refuses(promise: Promise<unknown>, code: ErrorCode, details?: object): Promise<void> {
  await assert.rejects(promise, (error) => {
    assert.ok(error instanceof AppError);
    assert.equal(error.code, code);
    if (details) assert.deepEqual(error.details, details);
    return true;
  });
}

const isUnauthorized = (secret: string) => refuses(authenticator.authenticate(secret), 'unauthorized');

const get = (credential: Credential, id: ApiKeyId) => manage.get(callOf({ credential }), id);

const attemptOf = (recordId: string | undefined) => (recordId === undefined ? undefined : { recordId });

const listedBy = (caller: Credential, include?: 'revoked') =>
  manage.list(callOf({ credential: caller }), include).read({ limit: 100 });

describe('a new key', () => {
  it('a new key has what was asked for, and names the key that created it', async () => {
    const caller = await callerWith();
    const projectId = await project('blue');
    const expiresAt = '2026-02-01T00:00:00.000Z';
    const { apiKey, secret } = await create(caller, { projectIds: [projectId, projectId], expiresAt });
    assert.equal(apiKey.createdBy, caller.apiKeyId);
    const credential = await authenticator.authenticate(secret);
    assert.deepEqual([...credential.scopes], ['code:run']);
    assert.deepEqual([...(credential.projectIds ?? [])], [projectId]);
    now = Date.parse(expiresAt);
    await isUnauthorized(secret);
  });

  it('a new key has no scope that its creator lacks', async () => {
    const caller = await callerWith({ scopes: ['api_key:write', 'code:run'] });
    const wanted = { scopes: ['code:run', 'file:read', '*'] as const };
    await refuses(create(caller, { scopes: [...wanted.scopes] }), 'forbidden', { missing: ['file:read', '*'] });
    await create(caller, { scopes: ['code:run'] });
  });

  it('a new key has no project that its creator lacks, and not all projects either', async () => {
    const [own, other] = [await project('own'), await project('other')];
    const caller = await callerWith({ projectIds: [own] });
    await refuses(create(caller), 'forbidden', { missing: ['projectIds'] });
    await refuses(create(caller, { projectIds: [own, other] }), 'forbidden', { missing: [other] });
    await create(caller, { projectIds: [own] });
    const foreign = (await orgs.create('another')).defaultProjectId;
    await refuses(create(await callerWith(), { projectIds: [foreign] }), 'not_found');
  });

  it('a new key does not outlive its creator', async () => {
    const caller = await callerWith({ expiresInMs: DAY_MS });
    const at = (ms: number) => new Date(now + ms).toISOString();
    await refuses(create(caller), 'forbidden', { missing: ['expiresAt'] });
    await refuses(create(caller, { expiresAt: at(DAY_MS + 1) }), 'forbidden', { missing: ['expiresAt'] });
    await create(caller, { expiresAt: at(DAY_MS) });
    await refuses(create(caller, { expiresAt: at(0) }), 'invalid_request');
  });

  it('a new key replaces the key of an attempt that was cut off, because its secret is lost', async () => {
    const caller = await callerWith();
    const lost = await create(caller, {}, 'idem_1');
    const kept = await create(caller, {}, 'idem_1');
    await refuses(authenticator.authenticate(lost.secret), 'unauthorized');
    await authenticator.authenticate(kept.secret);
  });

  it('a new key is not replaced by a server that resumes late, after another one has claimed or answered the request', {
    skip: DATABASE_KIND === 'sqlite' && 'SQLite has one server',
  }, async () => {
    const caller = await callerWith();
    const body: CreateApiKeyBody = { name: 'new', scopes: ['code:run'] };
    const records = new IdempotencyRepository(db);
    const scope = { orgId, apiKeyId: caller.apiKeyId, method: 'POST', route: '/v1/api-keys', key: 'once' };
    const claim = async (server: string) => {
      const owner = `${server}:claim`;
      const request = { ...scope, id: 'idem_1', bodyHash: 'same', owner, now, expiresAt: now + DAY_MS };
      const { id: recordId, claim } = (await records.claim(request)) ?? assert.fail('it is claimed');
      return { recordId, claim };
    };
    const createBy = (attempt: Attempt) =>
      manage.create(callOf({ credential: caller, idempotency: attempt, signal }), body);
    const late = await claim('srv_late');
    // No server has a lease, so the record of the first one can be claimed.
    const next = await claim('srv_next');
    const kept = await createBy(next);
    await refuses(createBy(late), 'unavailable');
    await records.complete(next.recordId, 'srv_next:claim', { status: 201, body: '{}' });
    for (const each of [late, next]) await refuses(createBy(each), 'unavailable');
    await authenticator.authenticate(kept.secret);
  });

  it('a new key is refused when the organization has as many working keys as it may', async () => {
    const caller = await callerWith();
    const row = await db.selectFrom('api_keys').selectAll().executeTakeFirstOrThrow();
    const rows = Array.from({ length: LIMITS.apiKeysPerOrganization - 1 }, (_, index) => ({
      ...row,
      id: `key_${index}`,
      public_part: `${index}`,
      secret_hash: `${index}`,
    }));
    for (let from = 0; from < rows.length; from += 100)
      await db
        .insertInto('api_keys')
        .values(rows.slice(from, from + 100))
        .execute();
    await refuses(create(caller), 'quota_exceeded');
    await revoke(caller, 'key_1');
    await create(caller);
  });
});

describe('a key that is bound to projects', () => {
  it('a key that is bound to projects sees keys that are bound to some of them, and no others', async () => {
    const [own, other] = [await project('own'), await project('other')];
    const all = await callerWith();
    const caller = await callerWith({ projectIds: [own] });
    const { apiKey: visible } = await create(all, { projectIds: [own] });
    const { apiKey: wider } = await create(all, { projectIds: [own, other] });
    const { apiKey: unbound } = await create(all);
    const listed = await listedBy(caller);
    assert.deepEqual(listed.map(({ id }) => id).sort(), [caller.apiKeyId, visible.id].sort());
    assert.equal((await get(caller, visible.id)).id, visible.id);
    for (const { id } of [wider, unbound]) {
      await refuses(get(caller, id), 'forbidden');
      await refuses(revoke(caller, id), 'forbidden');
      await refuses(rotate(caller, id), 'forbidden');
    }
  });

  it('a key that is bound to projects learns its project as the current one', async () => {
    const own = await project('own');
    const { project: current, org } = await manage.current(
      callOf({ credential: await callerWith({ projectIds: [own] }) }),
    );
    assert.deepEqual([current.id, org.id], [own, orgId]);
    assert.equal((await manage.current(callOf({ credential: await callerWith() }))).project.isDefault, true);
  });
});

describe('a list of keys', () => {
  it('a list of keys has the keys that work, newest first, and all with include=revoked', async () => {
    const caller = await callerWith();
    const ids: string[] = [];
    for (const expiresAt of [undefined, new Date(now + 10).toISOString(), undefined]) {
      now += 1;
      ids.unshift((await create(caller, expiresAt === undefined ? {} : { expiresAt })).apiKey.id);
    }
    await revoke(caller, ids[0] as ApiKeyId);
    now += 100;
    const listed = async (include?: 'revoked') => (await listedBy(caller, include)).map(({ id }) => id);
    assert.deepEqual(await listed(), [ids[2], caller.apiKeyId]);
    assert.deepEqual(await listed('revoked'), [...ids, caller.apiKeyId]);
  });

  it('a list of keys has nothing of another organization', async () => {
    const stranger = await operator.create({ orgId: (await orgs.create('another')).id, name: 'x', scopes: ['*'] });
    const caller = await callerWith();
    assert.deepEqual((await listedBy(caller, 'revoked')).length, 1);
    await refuses(get(caller, stranger.apiKey.id), 'not_found');
    await refuses(revoke(caller, stranger.apiKey.id), 'not_found');
    await refuses(rotate(caller, stranger.apiKey.id), 'not_found');
  });
});

describe('a rotation', () => {
  it('a rotation gives a successor with the same rights, and the old key a grace', async () => {
    const caller = await callerWith();
    const old = await create(caller, { scopes: ['code:run', 'file:read'] });
    const successor = await rotate(caller, old.apiKey.id);
    assert.deepEqual(
      [successor.apiKey.name, successor.apiKey.scopes, successor.apiKey.rotatedFrom, successor.apiKey.expiresAt],
      ['new', ['code:run', 'file:read'], old.apiKey.id, undefined],
    );
    now += DAY_MS - 1;
    await authenticator.authenticate(old.secret);
    now += 1;
    await isUnauthorized(old.secret);
    await authenticator.authenticate(successor.secret);
  });

  it('a rotation without a grace ends the old key at once', async () => {
    const caller = await callerWith();
    const old = await create(caller);
    await rotate(caller, old.apiKey.id, 0);
    await isUnauthorized(old.secret);
    await refuses(rotate(caller, old.apiKey.id), 'conflict');
  });

  it('prolongs neither the old key nor its successor', async () => {
    const caller = await callerWith();
    const end = now + DAY_MS / 2;
    const old = await create(caller, { expiresAt: new Date(end).toISOString() });
    const successor = await rotate(caller, old.apiKey.id);
    assert.equal(successor.apiKey.expiresAt, end);
    assert.equal((await get(caller, old.apiKey.id)).expiresAt, end);
    await rotate(caller, successor.apiKey.id, 1000);
    const late = await rotate(caller, successor.apiKey.id, DAY_MS);
    assert.equal(late.apiKey.expiresAt, now + 1000);
    assert.equal((await get(caller, successor.apiKey.id)).expiresAt, now + 1000);
  });

  it('a rotation that was cut off is repeated with the expiry of the first attempt', async () => {
    const caller = await callerWith();
    const old = await create(caller);
    const lost = await rotate(caller, old.apiKey.id, 1000, 'idem_1');
    const kept = await rotate(caller, old.apiKey.id, 1000, 'idem_1');
    assert.equal(kept.apiKey.expiresAt, undefined);
    await isUnauthorized(lost.secret);
    await authenticator.authenticate(kept.secret);
  });

  it('a rotation is refused for a key that has more than the caller, in scopes, projects or time', async () => {
    const all = await callerWith();
    const own = await project('own');
    const { apiKey: plain } = await create(all);
    await refuses(rotate(await callerWith({ scopes: ['api_key:write'] }), plain.id), 'forbidden', {
      missing: ['code:run'],
    });
    await refuses(rotate(await callerWith({ expiresInMs: DAY_MS }), plain.id), 'forbidden', { missing: ['expiresAt'] });
    await refuses(rotate(await callerWith({ projectIds: [own] }), plain.id), 'forbidden');
    await rotate(all, plain.id);
  });
});

describe('a revocation', () => {
  it('a revocation holds for the next request, and repeating it returns the same key', async () => {
    const caller = await callerWith();
    const { apiKey, secret } = await create(caller);
    await authenticator.authenticate(secret);
    const revoked = await revoke(caller, apiKey.id);
    await isUnauthorized(secret);
    now += 1000;
    assert.deepEqual(await revoke(caller, apiKey.id), revoked);
    assert.equal(revoked.revokedAt, now - 1000);
    await refuses(rotate(caller, apiKey.id), 'conflict');
  });

  it('a revocation is refused for a key that has more than the caller, but not for the caller itself', async () => {
    const all = await callerWith();
    const { apiKey } = await create(all);
    const caller = await callerWith({ scopes: ['api_key:write'] });
    await refuses(revoke(caller, apiKey.id), 'forbidden', { missing: ['code:run'] });
    await revoke(caller, caller.apiKeyId);
    assert.notEqual((await get(all, caller.apiKeyId)).revokedAt, undefined);
  });
});

describe('the time of the last use', () => {
  it('the time of the last use is written from time to time, less than a minute behind, and never goes back', async () => {
    const caller = await callerWith();
    const shown = async () => (await get(caller, caller.apiKeyId)).lastUsedAt;
    assert.equal(await shown(), undefined);
    await authenticator.uses.write();
    assert.equal(await shown(), now);
    const { secret } = await create(caller);
    await authenticator.authenticate(secret);
    now += 5_500;
    await authenticator.authenticate(secret);
    await authenticator.uses.write();
    const used = (await listedBy(caller)).find(({ id }) => id !== caller.apiKeyId)?.lastUsedAt;
    assert.equal(used, now - 500);
    await new SqlApiKeyRepository(db).markUsed([caller.apiKeyId], 5);
    assert.notEqual(await shown(), 5);
  });
});

describe('the events of keys', () => {
  it('the events of keys have the key as it is then, without its secret, and name the key of a cut-off attempt too', async () => {
    const caller = await callerWith();
    const events: unknown[][] = [];
    const texts: string[] = [];
    outbox.onCommitted((event) => {
      if ('apiKey' in event.data) events.push([event.type, event.data.apiKey.id, event.projectId]);
      texts.push(JSON.stringify(event));
    });
    const created = await create(caller, {}, 'idem_1');
    const again = await create(caller, {}, 'idem_1');
    const rotated = await rotate(caller, again.apiKey.id);
    await revoke(caller, rotated.apiKey.id);
    await revoke(caller, rotated.apiKey.id);
    await refuses(rotate(caller, rotated.apiKey.id), 'conflict');
    assert.deepEqual(events, [
      ['api_key.created', created.apiKey.id, undefined],
      ['api_key.revoked', created.apiKey.id, undefined],
      ['api_key.created', again.apiKey.id, undefined],
      ['api_key.rotated', rotated.apiKey.id, undefined],
      ['api_key.revoked', rotated.apiKey.id, undefined],
    ]);
    for (const { secret } of [created, again, rotated]) assert.ok(texts.every((text) => !text.includes(secret)));
  });
});

describe('another server', () => {
  it('another server notices a revocation within half a minute', async () => {
    const caller = await callerWith();
    const { apiKey, secret } = await create(caller);
    const other = new Authenticator(new SqlApiKeyRepository(db), clock);
    await other.authenticate(secret);
    await revoke(caller, apiKey.id);
    now += 30_000;
    await refuses(other.authenticate(secret), 'unauthorized');
  });

  it('another server ends what it has open for the key at its next look', async () => {
    const caller = await callerWith();
    const { apiKey, secret } = await create(caller);
    const keys = new SqlApiKeyRepository(db);
    const other = new Authenticator(keys, clock);
    const inFlight = new InFlight();
    const endKeyWork = new EndKeyWork({ keys, authenticator: other, clock, open: [inFlight] });
    const [ended, kept] = [await other.authenticate(secret), caller].map((each) => inFlight.enter(each, true));
    await endKeyWork.look();
    assert.deepEqual([ended?.signal.aborted, kept?.signal.aborted], [false, false]);
    await revoke(caller, apiKey.id);
    await endKeyWork.look();
    assert.deepEqual([ended?.signal.reason.code, kept?.signal.aborted], ['unauthorized', false]);
    await refuses(other.authenticate(secret), 'unauthorized');
  });
});
