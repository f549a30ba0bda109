import assert from 'node:assert/strict';
import { it } from 'node:test';
import type { Secret } from '@cloche/contract';
import { json, startScriptedServer } from '../testing/index.ts';
import { Cloche } from './cloche.ts';

it('secrets are created, listed, shown, changed and deleted', async () => {
  const secret: Secret = {
    id: 'sec_1',
    orgId: 'org_1',
    projectId: 'prj_1',
    name: 'payments',
    hosts: ['api.example.com'],
    createdAt: '2026-01-01T00:00:00.000Z',
    updatedAt: '2026-01-01T00:00:00.000Z',
  };
  await using server = await startScriptedServer(({ path, method }) =>
    path.startsWith('/v1/secrets?') || (path === '/v1/secrets' && method === 'GET')
      ? json(200, { data: [secret], hasMore: false })
      : json(200, { secret }),
  );
  const { secrets } = new Cloche({ url: server.url, apiKey: 'clk_test' });
  assert.deepEqual(await secrets.create('payments', { value: 'v', hosts: ['api.example.com'] }), secret);
  assert.deepEqual(await secrets.list(), [secret]);
  await secrets.list({ projectId: 'prj_1' });
  assert.deepEqual(await secrets.get('sec_1'), secret);
  await secrets.update('sec_1', { value: 'w' });
  await secrets.update('sec_1', { hosts: ['b.test'] });
  assert.deepEqual(await secrets.delete('sec_1'), secret);
  assert.deepEqual(
    server.requests.map(({ method, path, body }) => [method, path, body]),
    [
      ['POST', '/v1/secrets', { name: 'payments', value: 'v', hosts: ['api.example.com'] }],
      ['GET', '/v1/secrets', undefined],
      ['GET', '/v1/secrets?projectId=prj_1', undefined],
      ['GET', '/v1/secrets/sec_1', undefined],
      ['PATCH', '/v1/secrets/sec_1', { value: 'w' }],
      ['PATCH', '/v1/secrets/sec_1', { hosts: ['b.test'] }],
      ['DELETE', '/v1/secrets/sec_1', undefined],
    ],
  );
});
