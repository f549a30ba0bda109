import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { json, startScriptedServer } from '@cloche/sdk/testing';
import { runInProcess } from '../../testing/run-in-process.ts';

const preview = {
  id: 'prv_1',
  port: 8000,
  url: 'http://prv-1.localhost:4680',
  visibility: 'private',
  expiresAt: '2126-01-01T00:00:00.000Z',
};

describe('cloche preview', () => {
  it('cloche preview prints the link that opens the port, and nothing else on standard output', async () => {
    await using server = await startScriptedServer(() => json(201, { preview: { ...preview, accessToken: 'secret' } }));
    const env = { CLOCHE_URL: server.url, CLOCHE_API_KEY: 'clk_test' };
    const { stdout, stderr, exitCode } = await runInProcess(['preview', 'sbx_1', '8000', '--ttl', '10m'], { env });
    assert.deepEqual([exitCode, stdout], [0, 'http://prv-1.localhost:4680/?cloche_token=secret\n']);
    assert.match(stderr, /^private, prv_1, ends in /);
    assert.deepEqual(server.requests[0]?.body, { port: 8000, visibility: 'private', ttlMs: 600_000 });
  });

  it('lists and closes', async () => {
    await using server = await startScriptedServer(({ method }) =>
      json(200, method === 'GET' ? { data: [preview], hasMore: false } : { preview }),
    );
    const env = { CLOCHE_URL: server.url, CLOCHE_API_KEY: 'clk_test' };
    assert.match((await runInProcess(['preview', 'list', 'sbx_1'], { env })).stdout, /prv_1 +8000 +private/);
    assert.match((await runInProcess(['preview', 'delete', 'sbx_1', 'prv_1'], { env })).stderr, /prv_1 closed/);
  });

  it('says which ports there are', async () => {
    for (const port of ['0', '70000', 'x']) {
      const { stderr, exitCode } = await runInProcess(['preview', 'sbx_1', port]);
      assert.equal(exitCode, 2, port);
      assert.match(stderr, /from 1 to 65535/);
    }
  });
});
