import assert from 'node:assert/strict';
import { it } from 'node:test';
import { json, startScriptedServer } from '../testing/index.ts';
import { Cloche } from './cloche.ts';

it('metrics of one sandbox and of all are requested with their filters', async () => {
  const metrics = { sandboxId: 'sbx_1', samples: [] };
  await using server = await startScriptedServer(({ method, path }) => {
    if (method === 'POST') return json(201, { sandbox: { id: 'sbx_1', status: 'ready' } });
    return json(200, path.startsWith('/v1/sandbox-metrics') ? { data: [metrics], hasMore: true } : { metrics });
  });
  const { sandboxes } = new Cloche({ url: server.url, apiKey: 'clk_test' });
  const sandbox = await sandboxes.create();
  assert.deepEqual(await sandbox.metrics(), metrics);
  await sandbox.metrics({ from: new Date('2026-01-31T09:00:00Z') });
  assert.deepEqual(await sandboxes.metrics(), { data: [metrics], hasMore: true });
  await sandboxes.metrics({ projectId: 'prj_1', limit: 5 });
  assert.deepEqual(
    server.requests.slice(1).map(({ method, path }) => `${method} ${decodeURIComponent(path)}`),
    [
      'GET /v1/sandboxes/sbx_1/metrics',
      'GET /v1/sandboxes/sbx_1/metrics?from=2026-01-31T09:00:00.000Z',
      'GET /v1/sandbox-metrics',
      'GET /v1/sandbox-metrics?projectId=prj_1&limit=5',
    ],
  );
});
