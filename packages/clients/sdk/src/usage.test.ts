import assert from 'node:assert/strict';
import { it } from 'node:test';
import type { SandboxId, SandboxUsage, UsageRow } from '@cloche/contract';
import { json, startScriptedServer } from '../testing/index.ts';
import { Cloche } from './cloche.ts';
import { Sandbox, type SandboxInfo } from './sandbox.ts';

const COUNTS = {
  cpuMs: 1,
  memoryMbMs: 2,
  diskMbMs: 3,
  pausedMs: 8,
  runs: 4,
  commands: 5,
  egressBytes: 6,
  ingressBytes: 7,
};
const TIMES = { from: '2026-01-01T00:00:00.000Z', to: '2026-01-02T00:00:00.000Z' };

it('usage is listed, also of one project, by hours and of a range', async () => {
  const row = { ...TIMES, ...COUNTS, projectId: 'prj_1', sandboxMs: 8, workspaceRuns: 0, artifactBytes: 9 } as UsageRow;
  await using server = await startScriptedServer(() => json(200, { data: [row], hasMore: false }));
  const { usage } = new Cloche({ url: server.url, apiKey: 'clk_test' });
  assert.deepEqual(await usage.list(), [row]);
  await usage.list({ from: new Date(TIMES.from), to: '2026-01-02', groupBy: 'hour', projectId: 'prj_1' });
  assert.deepEqual(
    server.requests.map(({ method, path }) => `${method} ${decodeURIComponent(path)}`),
    ['GET /v1/usage', `GET /v1/usage?from=${TIMES.from}&to=2026-01-02&groupBy=hour&projectId=prj_1`],
  );
});

it('the usage of a sandbox is what it has used', async () => {
  const usage: SandboxUsage = { ...COUNTS, ...TIMES };
  await using server = await startScriptedServer(() => json(200, { usage }));
  const client = new Cloche({ url: server.url, apiKey: 'clk_test' });
  const sandbox = new Sandbox(client, { id: 'sbx_1' as SandboxId } as SandboxInfo);
  assert.deepEqual(await sandbox.usage(), usage);
  assert.equal(server.requests[0]?.path, '/v1/sandboxes/sbx_1/usage');
});
