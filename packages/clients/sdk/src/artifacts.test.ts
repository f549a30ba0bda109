import assert from 'node:assert/strict';
import { text } from 'node:stream/consumers';
import { describe, it } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import type { Artifact } from '@cloche/contract';
import { json, sampleSandbox, startScriptedServer } from '../testing/index.ts';
import { Cloche } from './cloche.ts';

const ARTIFACT: Artifact = {
  id: 'art_1',
  orgId: 'org_1',
  projectId: 'prj_1',
  sandboxId: 'sbx_1',
  name: 'report.csv',
  path: 'out/report.csv',
  contentType: 'text/csv',
  sizeBytes: 8,
  sha256: '0'.repeat(64),
  metadata: {},
  createdAt: '2026-01-01T00:00:00.000Z',
};

describe('artifacts', () => {
  it('artifacts are whole when their body alone is kept and read later, when the collector has run', async () => {
    setFlagsFromString('--expose-gc');
    const collect = runInNewContext('gc') as () => void;
    await using server = await startScriptedServer(() => (response) => void response.end('whole'));
    const cloche = new Cloche({ url: server.url, apiKey: 'clk_test' });
    const { body } = await cloche.artifacts.download('art_1');
    for (let round = 0; round < 10; round += 1) {
      collect();
      await setImmediate();
    }
    assert.equal(await text(body ?? assert.fail('no body')), 'whole');
  });

  it('artifacts are exported, listed, linked and deleted', async () => {
    const download = { url: 'http://127.0.0.1/downloads/artifacts/art_1?x', expiresAt: ARTIFACT.createdAt };
    await using server = await startScriptedServer(({ method, path }) => {
      if (path === '/v1/sandboxes/sbx_1') return json(200, { sandbox: sampleSandbox() });
      if (path.endsWith('/download-url')) return json(201, { download });
      if (method === 'GET' && path.startsWith('/v1/artifacts?')) return json(200, { data: [ARTIFACT], hasMore: false });
      return json(method === 'POST' ? 201 : 200, { artifact: ARTIFACT });
    });
    const cloche = new Cloche({ url: server.url, apiKey: 'clk_test' });
    const sandbox = await cloche.sandboxes.get('sbx_1');
    assert.deepEqual(await sandbox.artifacts.export('out/report.csv', { metadata: { kind: 'report' } }), ARTIFACT);
    assert.deepEqual(await sandbox.artifacts.list({ metadata: { kind: 'report' } }), [ARTIFACT]);
    assert.deepEqual(await cloche.artifacts.downloadUrl('art_1', { expiresInMs: 1000 }), download);
    assert.deepEqual(await cloche.artifacts.delete('art_1'), ARTIFACT);
    const [, exported, listed, linked, deleted] = server.requests;
    assert.deepEqual(exported?.body, { path: 'out/report.csv', metadata: { kind: 'report' } });
    assert.ok(exported?.headers['idempotency-key']);
    assert.equal(listed?.path, '/v1/artifacts?sandboxId=sbx_1&metadata.kind=report');
    assert.deepEqual(linked?.body, { expiresInMs: 1000 });
    assert.deepEqual([deleted?.method, deleted?.path], ['DELETE', '/v1/artifacts/art_1']);
  });
});
