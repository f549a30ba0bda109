import assert from 'node:assert/strict';
import { afterEach, beforeEach, describe, it } from 'node:test';
import { type OrgId, SCOPES } from '@cloche/contract';
import { apiKeyServiceOf } from '../../../testing/api-key-service.ts';
import { openTestDatabase } from '../../../testing/test-database.ts';
import type { ApiKeyService } from '../../features/api-keys/api-key-service.ts';
import { AppError } from '../base/app-error.ts';
import { randomIds } from '../base/id-source.ts';
import type { Database } from '../db/database.ts';
import { toEvent } from '../outbox/event-outbox.ts';
import { OrgRepository } from '../tenancy/org-repository.ts';
import { SqlProjectRepository } from '../tenancy/project-repository.ts';
import { hashApiKey, makeApiKey, parseApiKey } from './api-key-format.ts';
import { SqlApiKeyRepository } from './api-key-repository.ts';
import { Authenticator } from './authenticator.ts';

let now: number;
let db: Database;
let authenticator: Authenticator;
let service: ApiKeyService;
let orgs: OrgRepository;
let orgId: OrgId;
const clock = { now: () => now };

beforeEach(async () => {
  now = 1_000_000;
  db = await openTestDatabase();
  orgs = new OrgRepository(db, clock, randomIds);
  orgId = (await orgs.ensureFirst()).id;
  const keys = new SqlApiKeyRepository(db);
  authenticator = new Authenticator(keys, clock);
  service = apiKeyServiceOf(db, { keys, authenticator, clock });
});

afterEach(() => db.destroy());

const make = (extra: object = {}) => service.create({ orgId, name: 'test', scopes: ['code:run'], ...extra });

function refused(promise: Promise<unknown>, message: RegExp): Promise<void> {
  return assert.rejects(promise, (error) => {
    assert.ok(error instanceof AppError);
    assert.match(error.message, message);
    return true;
  });
}

describe('the form of a key', () => {
  it('the form of a key is clk_, 8 characters, 32 random ones and a checksum of 6', () => {
    const { key, publicPart } = makeApiKey();
    assert.match(key, /^clk_[0-9A-Za-z]{46}$/);
    assert.deepEqual(parseApiKey(key), { kind: 'generated', publicPart });
  });

  it('the form of a key tells every single mistyped character', () => {
    const { key } = makeApiKey();
    for (let index = 4; index < key.length; index++) {
      const typo = key.slice(0, index) + (key[index] === 'a' ? 'b' : 'a') + key.slice(index + 1);
      assert.equal(parseApiKey(typo).kind, 'mistyped');
    }
    assert.equal(parseApiKey(key.slice(0, -1)).kind, 'mistyped');
    assert.equal(parseApiKey('anything else').kind, 'free-form');
  });
});

describe('a key', () => {
  it('a key stands for its organization, scopes and projects', async () => {
    const { defaultProjectId } = await orgs.ensureFirst();
    const { secret, apiKey } = await make({ projectIds: [defaultProjectId] });
    const credential = await authenticator.authenticate(secret);
    assert.deepEqual(credential, {
      apiKeyId: apiKey.id,
      orgId,
      scopes: new Set(['code:run']),
      projectIds: new Set([defaultProjectId]),
    });
  });

  it('a key with * has every scope', async () => {
    const { secret } = await make({ scopes: ['*'] });
    assert.deepEqual([...(await authenticator.authenticate(secret)).scopes], [...SCOPES]);
  });

  it('a key is kept nowhere in the database', async () => {
    const { secret } = await make();
    const rows = JSON.stringify(await db.selectFrom('api_keys').selectAll().execute());
    assert.ok(!rows.includes(secret.slice(12)));
  });

  it('a key that was never made is unknown, though its checksum is right', async () => {
    await refused(authenticator.authenticate(makeApiKey().key), /unknown/);
    await refused(authenticator.authenticate('x'.repeat(30)), /unknown/);
    await refused(authenticator.authenticate('clk_short'), /mistyped/);
  });

  it('a key with the public part of another and a secret of its own is unknown', async () => {
    const { publicPart } = (await make()).apiKey;
    const forged = await db.selectFrom('api_keys').select('public_part').executeTakeFirstOrThrow();
    assert.equal(forged.public_part, publicPart);
    const other = makeApiKey();
    await db.updateTable('api_keys').set({ public_part: other.publicPart }).execute();
    await refused(authenticator.authenticate(other.key), /unknown/);
  });

  it('a key that is revoked is refused at the next request', async () => {
    const { secret, apiKey } = await make();
    await authenticator.authenticate(secret);
    await service.revoke(apiKey.id);
    await refused(authenticator.authenticate(secret), /revoked/);
  });

  it('a key that is revoked while it is being read is not remembered', async () => {
    const { secret, apiKey } = await make();
    const reading = authenticator.authenticate(secret);
    await service.revoke(apiKey.id);
    await reading.catch(() => undefined);
    await refused(authenticator.authenticate(secret), /revoked/);
  });

  it('a key is refused if it was revoked on another server, and the server that had read it stood still until then', async () => {
    const { apiKey, secret } = await make();
    const keys = new SqlApiKeyRepository(db);
    const late = new Authenticator(keys, clock);
    const find = keys.findByPublicPart.bind(keys);
    keys.findByPublicPart = async (publicPart) => {
      keys.findByPublicPart = find;
      const found = await find(publicPart);
      await service.revoke(apiKey.id);
      now += 60_000;
      return found;
    };
    await refused(late.authenticate(secret), /revoked/);
  });

  it('a key gets an answer when the database takes long at each read', async () => {
    const { secret } = await make();
    const keys = new SqlApiKeyRepository(db);
    const find = keys.findByPublicPart.bind(keys);
    keys.findByPublicPart = async (publicPart) => {
      now += 60_000;
      return find(publicPart);
    };
    await assert.rejects(new Authenticator(keys, clock).authenticate(secret), { code: 'unavailable' });
  });

  it('a key expires at its moment, remembered or not', async () => {
    const { secret } = await make({ expiresInMs: 1000 });
    now += 999;
    await authenticator.authenticate(secret);
    now += 1;
    await refused(authenticator.authenticate(secret), /expired/);
  });

  it('a key cannot have a scope or a project that does not exist', async () => {
    await refused(make({ scopes: ['code:fly'] }), /code:fly/);
    const other = await orgs.create('other');
    await refused(make({ projectIds: [other.defaultProjectId] }), /no project/);
  });

  it('a key is the first only once', async () => {
    await service.createFirst(orgId);
    await refused(service.createFirst(orgId), /already/);
  });
});

describe('the bootstrap key', () => {
  const stored = () => db.selectFrom('api_keys').select(['id', 'secret_hash', 'revoked_at']).execute();

  it('the bootstrap key is any text, has every scope, and stays the same key over restarts', async () => {
    const text = 'correct horse battery staple';
    await service.bootstrap(orgId, text);
    const { apiKeyId, scopes } = await authenticator.authenticate(text);
    assert.equal(scopes.size, SCOPES.length);
    await service.bootstrap(orgId, text);
    assert.equal((await authenticator.authenticate(text)).apiKeyId, apiKeyId);
  });

  it('the bootstrap key that a person chose is stored as a salted hash that is slow to guess, and not at all once another takes its place', async () => {
    const text = 'correct horse battery staple';
    await service.bootstrap(orgId, text);
    const [row] = await stored();
    assert.match(row?.secret_hash ?? '', /^scrypt-15-8-1:[\w-]{22}:[\w-]{43}$/);
    assert.ok(!row?.secret_hash.includes(hashApiKey(text)));
    await service.bootstrap(orgId, undefined);
    assert.deepEqual(
      (await stored()).map(({ secret_hash }) => secret_hash.startsWith('key_')),
      [true],
    );
  });

  it('the bootstrap key that an earlier version stored as a bare hash is stored anew', async () => {
    const text = 'correct horse battery staple';
    await service.bootstrap(orgId, text);
    await db
      .updateTable('api_keys')
      .set({ secret_hash: hashApiKey(text) })
      .execute();
    await service.bootstrap(orgId, text);
    await authenticator.authenticate(text);
    assert.ok((await stored()).every(({ secret_hash }) => !secret_hash.includes(hashApiKey(text))));
  });

  it('the bootstrap key is not hashed slowly for each request, nor is a wrong key', async () => {
    const text = 'correct horse battery staple';
    const timeOf = async (act: () => Promise<unknown>) => {
      const before = performance.now();
      await act();
      return performance.now() - before;
    };
    const oneSlowHashMs = await timeOf(() => service.bootstrap(orgId, text));
    const twentyRequestsMs = await timeOf(async () => {
      for (let count = 0; count < 10; count++) {
        await authenticator.authenticate(text);
        await refused(authenticator.authenticate(`wrong ${count} horse battery staple`), /unknown/);
      }
    });
    assert.ok(twentyRequestsMs < oneSlowHashMs, `${twentyRequestsMs} ms for 20, ${oneSlowHashMs} ms for one slow hash`);
  });

  it('the bootstrap key gives way to another one and to none, and can come back', async () => {
    const [one, two] = ['a'.repeat(20), 'b'.repeat(20)];
    await service.bootstrap(orgId, one);
    await authenticator.authenticate(one);
    await service.bootstrap(orgId, two);
    await refused(authenticator.authenticate(one), /unknown/);
    await service.bootstrap(orgId, undefined);
    await refused(authenticator.authenticate(two), /unknown/);
    await service.bootstrap(orgId, one);
    await authenticator.authenticate(one);
  });

  it('the bootstrap key may be one of the form that the service makes, which comes back as the same key', async () => {
    const { key } = makeApiKey();
    await service.bootstrap(orgId, key);
    const { apiKeyId } = await authenticator.authenticate(key);
    await service.bootstrap(orgId, undefined);
    await refused(authenticator.authenticate(key), /revoked/);
    await service.bootstrap(orgId, key);
    assert.equal((await authenticator.authenticate(key)).apiKeyId, apiKeyId);
  });
});

describe('a bootstrap key that was revoked, other than by another key in the settings', () => {
  const chosen = 'correct horse battery staple';
  for (const [form, key] of [
    ['that a person chose', chosen],
    ['of the form that the service makes', makeApiKey().key],
  ] as const) {
    it(`a bootstrap key that was revoked, other than by another key in the settings stays revoked after a restart with the same settings: one ${form}`, async () => {
      await service.bootstrap(orgId, key);
      const { apiKeyId } = await authenticator.authenticate(key);
      await service.revoke(apiKeyId);
      assert.deepEqual(await service.addBootstrap(orgId, key), { earlier: [], revoked: apiKeyId });
      await refused(authenticator.authenticate(key), /revoked/);
      await service.bootstrap(orgId, key);
      await refused(authenticator.authenticate(key), /revoked/);
    });

    it(`a bootstrap key that was revoked, other than by another key in the settings stays revoked although another key was in the settings meanwhile: one ${form}`, async () => {
      const other = makeApiKey().key;
      await service.bootstrap(orgId, key);
      await service.revoke((await authenticator.authenticate(key)).apiKeyId);
      await service.bootstrap(orgId, other);
      await authenticator.authenticate(other);
      await service.bootstrap(orgId, key);
      await refused(authenticator.authenticate(key), /revoked/);
      await refused(authenticator.authenticate(other), /revoked/);
    });
  }

  it('a bootstrap key that was revoked, other than by another key in the settings stays revoked if another key had taken its place before', async () => {
    const { key } = makeApiKey();
    await service.bootstrap(orgId, key);
    const { apiKeyId } = await authenticator.authenticate(key);
    await service.bootstrap(orgId, undefined);
    await service.revoke(apiKeyId);
    await service.bootstrap(orgId, key);
    await refused(authenticator.authenticate(key), /revoked/);
  });
});

describe('the changes of keys by the operator and by the settings', () => {
  it('the changes of keys by the operator and by the settings are events and audit events, in the transaction of the change', async () => {
    const { key } = makeApiKey();
    const { apiKey } = await service.create({ orgId, name: 'ci', scopes: ['*'] }, 'req_1');
    await service.revoke(apiKey.id);
    await service.revoke(apiKey.id);
    await service.bootstrap(orgId, key);
    await service.bootstrap(orgId, key);
    const { apiKeyId } = await authenticator.authenticate(key);
    await service.bootstrap(orgId, undefined);
    await service.bootstrap(orgId, key);
    const expected = [
      ['api_key.created', apiKey.id],
      ['api_key.revoked', apiKey.id],
      ['api_key.created', apiKeyId],
      ['api_key.revoked', apiKeyId],
      // It works again.
      ['api_key.created', apiKeyId],
    ];
    const events = (await db.selectFrom('events').selectAll().orderBy('seq').execute()).map(toEvent);
    assert.deepEqual(
      events.map(({ type, data }) => [type, 'apiKey' in data && data.apiKey.id]),
      expected,
    );
    const shown = events.map(({ data }) => ('apiKey' in data ? data.apiKey.revokedAt : undefined));
    assert.deepEqual(
      shown.map((revokedAt) => revokedAt !== undefined),
      [false, true, false, true, false],
    );
    assert.ok(!JSON.stringify(events).includes(key));
    const audited = await db.selectFrom('audit_events').selectAll().orderBy('seq').execute();
    assert.deepEqual(
      audited.map(({ action, target_id }) => [action, target_id]),
      expected,
    );
    assert.deepEqual(
      audited.map(({ actor_type, actor_id, request_id }) => [actor_type, actor_id, request_id]),
      [['operator', 'operator', 'req_1'], ...Array.from({ length: 4 }, () => ['operator', 'operator', null])],
    );
  });

  it('the changes of keys by the operator and by the settings are not made when their event cannot be written', async () => {
    const kept = await make();
    await db.schema.dropTable('audit_events').execute();
    await assert.rejects(make());
    await assert.rejects(service.revoke(kept.apiKey.id));
    const rows = await db.selectFrom('api_keys').select(['id', 'revoked_at']).execute();
    assert.deepEqual(
      rows.map(({ id, revoked_at }) => [id, revoked_at]),
      [[kept.apiKey.id, null]],
    );
    assert.equal((await db.selectFrom('events').selectAll().execute()).length, 1);
  });
});

describe('organizations', () => {
  it('organizations have a default project each, and names of their own', async () => {
    const other = await orgs.create('other');
    const projects = new SqlProjectRepository(db);
    assert.equal(await projects.getDefaultId(other.id), other.defaultProjectId);
    assert.equal(await projects.find(orgId, other.defaultProjectId), undefined);
    await refused(orgs.create('other'), /already/);
    assert.equal((await orgs.find('other'))?.id, other.id);
    assert.deepEqual((await orgs.list()).map(({ name }) => name).sort(), ['default', 'other']);
  });
});
