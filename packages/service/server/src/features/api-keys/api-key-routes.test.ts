import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { type KeyWorld, openKeyWorld } from '../../../testing/keys.ts';

let world: KeyWorld;
before(async () => {
  world = await openKeyWorld();
});
after(() => world.close());

describe('a key with no scope for keys', () => {
  it('a key with no scope for keys gets itself, its organization and its project as the current one', async () => {
    const { id, secret } = await world.create({ name: 'plain', scopes: ['code:run'] });
    const { status, body } = await world.call('GET', '/v1/api-keys/current', { key: secret });
    assert.equal(status, 200);
    assert.deepEqual([body.apiKey.id, body.apiKey.name, body.apiKey.scopes], [id, 'plain', ['code:run']]);
    assert.equal(body.apiKey.prefix, secret.slice(0, 12));
    assert.deepEqual([body.organization.name, body.project.isDefault], ['default', true]);
    assert.equal(JSON.stringify(body).includes(secret), false);
  });

  it('a key with no scope for keys reads, creates, rotates and revokes no other key', async () => {
    const { secret } = await world.create({ scopes: ['code:run'] });
    const { id } = await world.create({ scopes: ['code:run'] });
    for (const [method, path, scope] of [
      ['GET', '', 'api_key:read'],
      ['GET', `/${id}`, 'api_key:read'],
      ['POST', '', 'api_key:write'],
      ['POST', `/${id}/rotate`, 'api_key:write'],
      ['DELETE', `/${id}`, 'api_key:write'],
    ] as const) {
      const body = method === 'POST' ? { body: {} } : {};
      const refused = await world.call(method, `/v1/api-keys${path}`, { key: secret, ...body });
      assert.deepEqual(
        [refused.status, refused.body.error.details],
        [403, { requiredScope: scope }],
        `${method} ${path}`,
      );
    }
  });

  it('a key with no scope for keys revokes itself', async () => {
    const { id, secret } = await world.create({ scopes: ['code:run'] });
    const { status, body } = await world.call('DELETE', `/v1/api-keys/${id}`, { key: secret });
    assert.equal(status, 200);
    assert.ok(Date.parse(body.apiKey.revokedAt) <= Date.now());
    const refused = await world.call('GET', '/v1/api-keys/current', { key: secret });
    assert.deepEqual([refused.status, refused.body.error.code], [401, 'unauthorized']);
  });
});

describe('the operations on keys', () => {
  it('the operations on keys create, rotate, list and revoke over the API', async () => {
    const { id, secret } = await world.create({ scopes: ['*'] });
    const rotated = await world.call('POST', `/v1/api-keys/${id}/rotate`, { key: secret });
    assert.equal(rotated.status, 201);
    const { apiKey, secret: next } = rotated.body;
    assert.deepEqual([apiKey.rotatedFrom, apiKey.createdBy], [id, id]);
    const old = (await world.call('GET', `/v1/api-keys/${id}`, { key: next })).body.apiKey;
    assert.ok(Date.parse(old.expiresAt) > Date.now());
    assert.equal((await world.call('DELETE', `/v1/api-keys/${id}`, { key: next })).status, 200);
    const ids = async (query = '') =>
      (await world.call('GET', `/v1/api-keys${query}`, { key: next })).body.data.map((key: { id: string }) => key.id);
    assert.equal((await ids()).includes(id), false);
    assert.equal((await ids('?include=revoked')).includes(id), true);
  });

  it('the operations on keys show what the operator created as created by it', async () => {
    const { key } = await world.operator('POST', '/keys', { scopes: ['api_key:read'] });
    const { body } = await world.call('GET', '/v1/api-keys/current', { key: key.secret });
    assert.equal(body.apiKey.createdBy, 'operator');
  });

  it('the operations on keys refuse an invalid key', async () => {
    for (const body of [
      {},
      { name: '', scopes: ['*'] },
      { name: 'x', scopes: [] },
      { name: 'x', scopes: ['nope'] },
      { name: 'x', scopes: ['*'], projectIds: [] },
      { name: 'x', scopes: ['*'], expiresAt: 'tomorrow' },
      { name: 'x', scopes: ['*'], expiresAt: '2020-01-01T00:00:00Z' },
      { name: 'x', scopes: ['*'], expiresAt: '2999-02-30T25:00:00Z' },
    ]) {
      const refused = await world.call('POST', '/v1/api-keys', { body });
      assert.deepEqual([refused.status, refused.body.error.code], [400, 'invalid_request'], JSON.stringify(body));
    }
    const unknown = await world.call('POST', '/v1/api-keys', {
      body: { name: 'x', scopes: ['*'], projectIds: ['prj_x'] },
    });
    assert.equal(unknown.status, 404);
    assert.equal((await world.call('DELETE', '/v1/api-keys/key_none')).status, 404);
  });
});
