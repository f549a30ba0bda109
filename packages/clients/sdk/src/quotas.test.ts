import assert from 'node:assert/strict';
import { it } from 'node:test';
import type { QuotaUse } from '@cloche/contract';
import { json, startScriptedServer } from '../testing/index.ts';
import { Cloche } from './cloche.ts';

it('quotas are listed, also those of one project', async () => {
  const use: QuotaUse = { quota: 'liveSandboxes', limit: 2, used: 1 };
  await using server = await startScriptedServer(() => json(200, { data: [use], hasMore: false }));
  const { quotas } = new Cloche({ url: server.url, apiKey: 'clk_test' });
  assert.deepEqual(await quotas.list(), [use]);
  await quotas.list({ projectId: 'prj_1' });
  assert.deepEqual(
    server.requests.map(({ method, path }) => `${method} ${path}`),
    ['GET /v1/quotas', 'GET /v1/quotas?projectId=prj_1'],
  );
});
