import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { Preview } from '@cloche/contract';
import { json, sampleSandbox, startScriptedServer } from '../testing/index.ts';
import { Cloche } from './cloche.ts';
import { previewLink } from './previews.ts';

const PREVIEW: Preview = {
  id: 'prv_1',
  orgId: 'org_1',
  projectId: 'prj_1',
  sandboxId: 'sbx_1',
  port: 8000,
  url: 'http://prv-1.localhost:4680',
  visibility: 'private',
  createdAt: '2026-01-01T00:00:00.000Z',
  expiresAt: '2026-01-01T01:00:00.000Z',
  accessToken: 'secret',
};

describe('the previews of a sandbox', () => {
  it('the previews of a sandbox are opened, listed and closed', async () => {
    await using server = await startScriptedServer(({ method, path }) => {
      if (path === '/v1/sandboxes/sbx_1') return json(200, { sandbox: sampleSandbox() });
      if (method === 'GET') return json(200, { data: [PREVIEW], hasMore: false });
      return json(method === 'POST' ? 201 : 200, { preview: PREVIEW });
    });
    const cloche = new Cloche({ url: server.url, apiKey: 'clk_test' });
    const sandbox = await cloche.sandboxes.get('sbx_1');
    assert.deepEqual(await sandbox.previews.open(8000, { visibility: 'private', ttlMs: 1000 }), PREVIEW);
    assert.deepEqual(await sandbox.previews.list(), [PREVIEW]);
    await sandbox.previews.close('prv_1');
    const [, opened, listed, closed] = server.requests;
    assert.deepEqual(
      [opened, listed, closed].map((request) => [request?.method, request?.path]),
      [
        ['POST', '/v1/sandboxes/sbx_1/previews'],
        ['GET', '/v1/sandboxes/sbx_1/previews'],
        ['DELETE', '/v1/previews/prv_1'],
      ],
    );
    assert.deepEqual(opened?.body, { port: 8000, visibility: 'private', ttlMs: 1000 });
  });

  it('the previews of a sandbox have a link that opens them in a browser', () => {
    assert.equal(previewLink(PREVIEW), 'http://prv-1.localhost:4680/?cloche_token=secret');
    const { accessToken: _, ...open } = PREVIEW;
    assert.equal(previewLink(open), 'http://prv-1.localhost:4680/');
  });
});
