import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { openPreviewWorld, type PreviewWorld } from '../../../testing/previews.ts';

describe('a preview', () => {
  let world: PreviewWorld;
  before(async () => {
    world = await openPreviewWorld();
    await world.serve((_, response) => response.end('the app'));
  });
  after(() => world.close());

  it('a preview has a host of its own, its visibility, and the end of its sandbox', async () => {
    const { body } = await world.call('GET', `/v1/sandboxes/${world.sandboxId}`);
    const preview = await world.open();
    assert.equal(preview.url, `http://prv-${preview.id.slice(4)}.localhost:${world.port}`);
    assert.deepEqual([preview.visibility, preview.port], ['private', 8000]);
    assert.equal(preview.expiresAt, body.sandbox.expiresAt);
    const brief = await world.open({ visibility: 'public', ttlMs: 60_000 });
    assert.equal(Date.parse(brief.expiresAt) - Date.parse(brief.createdAt), 60_000);
    const long = await world.open({ ttlMs: 86_400_000 });
    assert.equal(long.expiresAt, body.sandbox.expiresAt);
  });

  it('a preview shows its token only when it is created, and has none if it is public', async () => {
    const preview = await world.open();
    assert.match(preview.accessToken ?? '', /^[\w-]{32}$/);
    const got = await world.call('GET', `/v1/previews/${preview.id}`);
    assert.equal('accessToken' in got.body.preview, false);
    assert.equal((await world.open({ visibility: 'public' })).accessToken, undefined);
  });

  it('a preview is refused for an impossible port or lifetime', async () => {
    for (const body of [{ port: 0 }, { port: 70_000 }, { port: 80.5 }, { port: '80' }, {}, { port: 80, ttlMs: 0 }]) {
      const answer = await world.call('POST', `/v1/sandboxes/${world.sandboxId}/previews`, body);
      assert.deepEqual([answer.status, answer.body.error.code], [400, 'invalid_request'], JSON.stringify(body));
      assert.match(answer.body.error.message, /^body\.(port|ttlMs) /);
    }
  });

  it('a preview is listed with its sandbox and among all, until it is deleted', async () => {
    const preview = await world.open();
    const listed = async (path: string) =>
      (await world.call('GET', path)).body.data.some(({ id }: { id: string }) => id === preview.id);
    const lists = [
      '/v1/previews',
      `/v1/previews?sandboxId=${world.sandboxId}`,
      `/v1/sandboxes/${world.sandboxId}/previews`,
    ];
    for (const path of lists) assert.equal(await listed(path), true, path);
    assert.equal(await listed('/v1/previews?sandboxId=sbx_other'), false);
    const deleted = await world.call('DELETE', `/v1/previews/${preview.id}`);
    assert.equal(deleted.status, 200);
    assert.ok(deleted.body.preview.deletedAt);
    assert.deepEqual((await world.call('DELETE', `/v1/previews/${preview.id}`)).body, deleted.body);
    for (const path of lists) assert.equal(await listed(path), false, path);
    assert.equal((await world.call('GET', `/v1/previews/${preview.id}`)).status, 404);
    assert.equal((await world.ask(preview.host)).status, 404);
  });

  it('a preview of an unknown id is not found', async () => {
    for (const method of ['GET', 'DELETE']) {
      assert.equal((await world.call(method, '/v1/previews/prv_none')).body.error.code, 'not_found');
    }
  });
});

describe('the API', () => {
  let world: PreviewWorld;
  before(async () => {
    world = await openPreviewWorld();
    await world.serve((request, response) => response.end(`the app at ${request.url}`));
  });
  after(() => world.close());

  it('the API is not reached by the host of a preview, whatever its path and its id', async () => {
    const { host } = await world.open({ visibility: 'public' });
    const authorization = `Bearer ${world.key}`;
    for (const path of ['/v1/sandboxes', '/healthz', '/metrics', '/openapi.json']) {
      assert.equal((await world.ask(host, { path, headers: { authorization } })).text, `the app at ${path}`);
      for (const unknown of ['prv-none.localhost', 'PRV-x.LOCALHOST.:80', 'deep.prv-x.localhost', `x.${host}`]) {
        const answer = await world.ask(unknown, { path, headers: { authorization, accept: 'application/json' } });
        assert.deepEqual([answer.status, JSON.parse(answer.text).error.code], [404, 'preview_not_found'], unknown);
      }
    }
  });

  it('the API answers every other host, and shows none of them a preview', async () => {
    const { host } = await world.open({ visibility: 'public' });
    for (const other of ['localhost', 'cloche.localhost', '127.0.0.1', `${host}.example.com`, 'prv-x.example.com']) {
      assert.equal((await world.ask(other, { path: '/healthz' })).status, 200, other);
      assert.match((await world.ask(other, { path: '/x' })).text, /does not exist/, other);
    }
  });

  it('the API answers requests to upgrade as ordinary ones', async () => {
    const headers = { connection: 'Upgrade', upgrade: 'websocket' };
    assert.equal((await world.ask('localhost', { path: '/healthz', headers })).status, 200);
  });
});

describe('previews of a sandbox', () => {
  let world: PreviewWorld;
  before(async () => {
    world = await openPreviewWorld();
    await world.serve((_, response) => response.end('the app'));
  });
  after(() => world.close());

  it('previews of a sandbox are as many as the limit says', async () => {
    for (let count = 0; count < 64; count++) await world.open();
    const answer = await world.call('POST', `/v1/sandboxes/${world.sandboxId}/previews`, { port: 1 });
    assert.equal(answer.body.error.code, 'quota_exceeded');
    assert.deepEqual(answer.body.error.details, { quota: 'previews', limit: 64, used: 64 });
    await world.call('DELETE', `/v1/previews/${(await world.call('GET', '/v1/previews')).body.data[0].id}`);
    await world.open();
  });

  it('previews of a sandbox end with it', async () => {
    const [preview] = (await world.call('GET', '/v1/previews')).body.data;
    await world.call('DELETE', `/v1/sandboxes/${world.sandboxId}`);
    assert.deepEqual((await world.call('GET', '/v1/previews')).body.data, []);
    assert.equal((await world.call('GET', `/v1/previews/${preview.id}`)).status, 404);
    assert.equal((await world.ask(new URL(preview.url).host)).status, 404);
    const refused = await world.call('POST', `/v1/sandboxes/${world.sandboxId}/previews`, { port: 1 });
    assert.equal(refused.body.error.code, 'sandbox_destroyed');
    assert.equal((await world.call('DELETE', `/v1/previews/${preview.id}`)).status, 200);
  });
});

describe('previews below a domain of the operator', () => {
  let world: PreviewWorld;
  before(async () => {
    world = await openPreviewWorld({ CLOCHE_PREVIEW_URL: 'https://preview.example.com' });
    await world.serve((request, response) => response.end(JSON.stringify(request.headers)));
  });
  after(() => world.close());

  it('previews below a domain of the operator have its scheme, and cookies that only HTTPS carries and no other host sets', async () => {
    const preview = await world.open();
    assert.match(preview.url, /^https:\/\/prv-\w+\.preview\.example\.com$/);
    const entry = await world.ask(preview.host, { path: `/?cloche_token=${preview.accessToken}` });
    assert.equal(entry.headers.location, `${preview.url}/`);
    assert.match(
      String(entry.headers['set-cookie']),
      /^__Host-cloche-preview=[^;]+; Path=\/; HttpOnly; SameSite=Lax; Secure$/,
    );
    const cookie = String(entry.headers['set-cookie']).split(';')[0] ?? '';
    const seen = JSON.parse((await world.ask(preview.host, { headers: { cookie } })).text);
    assert.equal(seen['x-forwarded-proto'], 'https');
    const elsewhere = preview.host.replace('preview.example.com', 'localhost');
    assert.match((await world.ask(elsewhere, { path: '/x' })).text, /does not exist/);
  });
});
