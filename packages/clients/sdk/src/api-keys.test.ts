import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { ApiKey } from '@cloche/contract';
import { json, startScriptedServer } from '../testing/index.ts';
import { Cloche } from './cloche.ts';

const KEY: ApiKey = {
  id: 'key_1',
  orgId: 'org_1',
  name: 'ci',
  prefix: 'clk_12345678',
  scopes: ['code:run'],
  createdAt: '2026-01-01T00:00:00.000Z',
  createdBy: 'key_0',
};

describe('API keys', () => {
  it('API keys are created, listed, read, rotated and revoked', async () => {
    await using server = await startScriptedServer(({ method, path }) => {
      if (method === 'POST') return json(201, { apiKey: KEY, secret: 'clk_secret' });
      if (path.endsWith('/current')) return json(200, { apiKey: KEY, organization: {}, project: { id: 'prj_1' } });
      return json(200, /api-keys(\?|$)/.test(path) ? { data: [KEY], hasMore: false } : { apiKey: KEY });
    });
    const { apiKeys } = new Cloche({ url: server.url, apiKey: 'clk_test' });
    const expiresAt = new Date('2026-02-01T00:00:00.000Z');
    const created = await apiKeys.create({ name: 'ci', scopes: ['code:run'], projectIds: ['prj_1'], expiresAt });
    assert.deepEqual(created, { apiKey: KEY, secret: 'clk_secret' });
    assert.deepEqual(await apiKeys.list({ includeRevoked: true }), [KEY]);
    assert.deepEqual(await apiKeys.get('key_1'), KEY);
    assert.equal((await apiKeys.current()).project.id, 'prj_1');
    assert.equal((await apiKeys.rotate('key_1', { graceMs: 0 })).secret, 'clk_secret');
    assert.deepEqual(await apiKeys.revoke('key_1'), KEY);
    assert.deepEqual(
      server.requests.map(({ method, path }) => `${method} ${path}`),
      [
        'POST /v1/api-keys',
        'GET /v1/api-keys?include=revoked',
        'GET /v1/api-keys/key_1',
        'GET /v1/api-keys/current',
        'POST /v1/api-keys/key_1/rotate',
        'DELETE /v1/api-keys/key_1',
      ],
    );
    assert.deepEqual(server.requests[0]?.body, {
      name: 'ci',
      scopes: ['code:run'],
      projectIds: ['prj_1'],
      expiresAt: '2026-02-01T00:00:00.000Z',
    });
    assert.deepEqual(server.requests[4]?.body, { graceMs: 0 });
    assert.ok(server.requests[0]?.headers['idempotency-key']);
  });
});
