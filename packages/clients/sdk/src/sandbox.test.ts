import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { failing, json, sampleContext, sampleSandbox, scriptedSandbox, startScriptedServer } from '../testing/index.ts';
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

  it('a sandbox is found by its name or created, and gets a name and labels', async () => {
    const { server, sandbox } = await scriptedSandbox(() => json(200, { sandbox: sampleSandbox(), created: true }));
    await using _ = server;
    const cloche = new Cloche({ url: server.url, apiKey: 'clk_test' });
    const named = await cloche.sandboxes.getOrCreate('web', { template: 'node' });
    assert.deepEqual([named.sandbox.id, named.created], ['sbx_1', true]);
    assert.equal((await cloche.sandboxes.getByName('web', { projectId: 'prj_1' })).id, 'sbx_1');
    assert.equal(
      await sandbox.update({ name: null, metadata: { team: 'blue' }, pause: { afterIdleMs: null } }),
      sandbox,
    );
    assert.deepEqual(
      server.requests.slice(-3).map(({ method, path, body }) => [method, path, body]),
      [
        ['PUT', '/v1/sandboxes/by-name/web', { template: 'node' }],
        ['GET', '/v1/sandboxes/by-name/web?projectId=prj_1', undefined],
        ['PATCH', '/v1/sandboxes/sbx_1', { name: null, metadata: { team: 'blue' }, pause: { afterIdleMs: null } }],
      ],
    );
  });

  it('a sandbox is paused and resumed, with what the caller gives alone, and says what it became', async () => {
    const at = '2026-01-01T00:00:00.000Z';
    const paused = { at, by: 'request', memory: 'kept', place: 'memory' } as const;
    const { server, sandbox } = await scriptedSandbox(({ path }) =>
      json(200, { sandbox: sampleSandbox({ status: 'idle', ...(path.endsWith('/pause') && { paused }) }) }),
    );
    await using _ = server;
    for (const [verb, call, body] of [
      ['pause', () => sandbox.pause(), {}],
      ['pause', () => sandbox.pause({ force: true }), { force: true }],
      ['pause', () => sandbox.pause({ force: false, idempotencyKey: 'own' }), { force: false }],
      ['pause', () => sandbox.pause({ retainMs: 86_400_000, force: undefined }), { retainMs: 86_400_000 }],
      ['resume', () => sandbox.resume(), {}],
      ['resume', () => sandbox.resume({ ttlMs: undefined, idempotencyKey: 'own' }), {}],
      ['resume', () => sandbox.resume({ ttlMs: 1_800_000, timeoutMs: 5_000 }), { ttlMs: 1_800_000 }],
    ] as const) {
      assert.equal(await call(), sandbox);
      const { method, path, body: sent } = server.requests.at(-1) ?? {};
      assert.deepEqual([method, path, sent], ['POST', `/v1/sandboxes/sbx_1/${verb}`, body]);
      assert.deepEqual(sandbox.info.paused, verb === 'pause' ? paused : undefined);
    }
    assert.equal(server.requests.filter(({ headers }) => headers['idempotency-key'] === 'own').length, 2);
  });

  it('a sandbox that cannot be paused or resumed says why, and keeps its last known state', async () => {
    const { server, sandbox } = await scriptedSandbox([
      failing('conflict', {}, { running: 2 }),
      failing('quota_exceeded'),
    ]);
    await using _ = server;
    await assert.rejects(sandbox.pause(), { code: 'conflict', details: { running: 2 } });
    await assert.rejects(sandbox.resume(), { code: 'quota_exceeded' });
    assert.equal(sandbox.info.status, 'creating');
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
