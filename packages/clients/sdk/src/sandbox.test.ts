import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { json, sampleContext, sampleSandbox, scriptedSandbox, startScriptedServer } from '../testing/index.ts';
import { Cloche, isClocheError } from './index.ts';

const ready = json(200, { sandbox: sampleSandbox({ status: 'ready' }) });

describe('a sandbox', () => {
  it('a sandbox waits on the server until it is ready', async () => {
    const { server, sandbox } = await scriptedSandbox([
      json(200, { sandbox: sampleSandbox({ status: 'starting' }) }),
      ready,
    ]);
    await using _ = server;
    await sandbox.waitUntilReady();
    assert.equal(sandbox.info.status, 'ready');
    assert.match(server.requests[1]?.path ?? '', /^\/v1\/sandboxes\/sbx_1\?waitFor=ready&waitMs=60000$/);
  });

  it('a sandbox is paused and resumed, with what was given', async () => {
    const paused = { at: '2026-01-01T00:00:00.000Z', by: 'request', memory: 'kept', place: 'memory' } as const;
    const { server, sandbox } = await scriptedSandbox([
      json(200, { sandbox: sampleSandbox({ status: 'idle', paused }) }),
      ready,
    ]);
    await using _ = server;
    assert.deepEqual((await sandbox.pause({ force: true, retainMs: 60_000 })).info.paused, paused);
    assert.equal((await sandbox.resume({ ttlMs: 1_000 })).info.paused, undefined);
    const sent = server.requests.slice(1).map(({ method, path, body }) => [method, path, body]);
    assert.deepEqual(sent, [
      ['POST', '/v1/sandboxes/sbx_1/pause', { force: true, retainMs: 60_000 }],
      ['POST', '/v1/sandboxes/sbx_1/resume', { ttlMs: 1_000 }],
    ]);
  });

  it('a sandbox says why it will never be ready', async () => {
    const failed = sampleSandbox({ status: 'failed', failureReason: 'no disk' });
    const { server, sandbox } = await scriptedSandbox([json(200, { sandbox: failed })]);
    await using _ = server;
    const error = await sandbox.waitUntilReady().catch((caught: unknown) => caught);
    assert.ok(isClocheError(error, 'sandbox_failed'));
    assert.equal(error.details?.reason, 'no disk');
  });

  it('a sandbox stops waiting at its time', async () => {
    const { server, sandbox } = await scriptedSandbox(() => json(200, { sandbox: sampleSandbox() }));
    await using _ = server;
    await assert.rejects(sandbox.waitUntilReady({ timeoutMs: 60 }), {
      code: 'deadline_exceeded',
      message: /"creating"/,
    });
  });

  it('a sandbox is killed at the end of the block that uses it', async () => {
    const { server, sandbox } = await scriptedSandbox([json(200, { sandbox: sampleSandbox({ status: 'destroyed' }) })]);
    await using _ = server;
    {
      await using own = sandbox;
      assert.equal(own.id, 'sbx_1');
    }
    assert.equal(`${server.requests[1]?.method} ${server.requests[1]?.path}`, 'DELETE /v1/sandboxes/sbx_1');
    assert.equal(sandbox.info.status, 'destroyed');
  });

  it('a sandbox is listed by its labels, and takes a new lifetime', async () => {
    const longer = sampleSandbox({ expiresAt: '2026-01-01T05:00:00.000Z' });
    const { server, sandbox } = await scriptedSandbox([json(200, { sandbox: longer })]);
    await using _ = server;
    await sandbox.setTtl(18_000_000);
    assert.deepEqual(server.requests[1]?.body, { ttlMs: 18_000_000 });
    assert.equal(sandbox.info.expiresAt, '2026-01-01T05:00:00.000Z');

    const listing = await startScriptedServer([json(200, { data: [sampleSandbox()], hasMore: false })]);
    await using __ = listing;
    const cloche = new Cloche({ url: listing.url, apiKey: 'clk_test' });
    const [first] = await cloche.sandboxes.list({ metadata: { team: 'blue' }, include: 'historical' });
    assert.equal(first?.id, 'sbx_1');
    assert.equal(listing.requests[0]?.path, '/v1/sandboxes?include=historical&metadata.team=blue');
  });

  it('a sandbox has contexts that can be interrupted, restarted and deleted', async () => {
    const { server, sandbox } = await scriptedSandbox(() => json(200, { context: sampleContext() }));
    await using _ = server;
    const context = await sandbox.contexts.get('cctx_1');
    await context.interrupt();
    await context.restart();
    await context.delete();
    const path = '/v1/sandboxes/sbx_1/code/contexts/cctx_1';
    assert.deepEqual(
      server.requests.slice(1).map((request) => `${request.method} ${request.path}`),
      [`GET ${path}`, `POST ${path}/interrupt`, `POST ${path}/restart`, `DELETE ${path}`],
    );
  });
});
