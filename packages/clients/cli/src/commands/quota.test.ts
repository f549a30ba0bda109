import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { json, startScriptedServer } from '@cloche/sdk/testing';
import { runInProcess } from '../../testing/run-in-process.ts';

const data = [
  { quota: 'liveSandboxes', limit: 2, used: 1 },
  { quota: 'previews', limit: null, used: 0 },
];

async function run(answered: unknown[], ...args: string[]) {
  await using server = await startScriptedServer(() => json(200, { data: answered, hasMore: false }));
  const env = { CLOCHE_URL: server.url, CLOCHE_API_KEY: 'clk_test' };
  return { ...(await runInProcess(args, { env })), requests: server.requests };
}

describe('cloche quota', () => {
  it('cloche quota shows the use and the limit of each quota', async () => {
    const { stdout, requests } = await run(data, 'quota');
    assert.match(stdout, /^QUOTA +USED +LIMIT\nliveSandboxes +1 +2\npreviews +0 +none\n$/);
    assert.equal(requests[0]?.path, '/v1/quotas');
    assert.deepEqual(JSON.parse((await run(data, 'quota', '--json')).stdout), { data });
  });

  it('cloche quota shows the quotas of one project', async () => {
    const ofProject = data.map((use) => ({ ...use, project: 'prj_1' }));
    const { stdout, requests } = await run(ofProject, 'quota', '--project', 'prj_1');
    assert.match(stdout, /^QUOTA +USED +LIMIT +PROJECT\nliveSandboxes +1 +2 +prj_1\n/);
    assert.equal(requests[0]?.path, '/v1/quotas?projectId=prj_1');
  });
});

describe('cloche admin quota set', () => {
  it('cloche admin quota set refuses quotas that do not exist and values that are no numbers', async () => {
    for (const setting of ['sandboxes=2', 'liveSandboxes=-1', 'liveSandboxes']) {
      const { exitCode, stderr } = await runInProcess(['admin', 'quota', 'set', '--org', 'acme', setting], { env: {} });
      assert.equal(exitCode, 2, stderr);
    }
  });
});
