/** What protocols beside `/v1` do for a client before its key is checked, on a whole server with a fake runtime. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type IncomingMessage, request } from 'node:http';
import { text } from 'node:stream/consumers';
import { after, before, describe, it } from 'node:test';
import type { AuditEvent } from '@cloche/contract';
import { E2bBoxes } from '../../testing/e2b-boxes.ts';
import { openTenants, type Tenants } from '../../testing/tenants.ts';

/** An address of this host that the server's requests to itself do not come from. */
const CLIENT = '127.0.0.2';
const SIGNATURE = `v1_${'A'.repeat(43)}`;

let tenants: Tenants;
before(async () => {
  tenants = await openTenants({ CLOCHE_E2B: 'on' });
});
after(() => tenants?.close());

interface Sent {
  readonly method?: string;
  readonly path: string;
  readonly headers?: Record<string, string>;
  readonly body?: string;
}

/** Sends a request from another address than the server's own. Without a body, one is announced and never comes. */
async function send({ method = 'POST', path, headers = {}, body }: Sent): Promise<[status: number, body: string]> {
  const { hostname, port } = new URL(tenants.server.url);
  const size = { 'content-length': body === undefined ? 1_000_000 : Buffer.byteLength(body) };
  const options = { hostname, port, method, path, localAddress: CLIENT, agent: false };
  const sent = request({ ...options, headers: { 'content-type': 'application/json', ...size, ...headers } });
  sent.on('error', () => undefined);
  if (body === undefined) sent.flushHeaders();
  else sent.end(body);
  const [answer] = (await once(sent, 'response', { signal: AbortSignal.timeout(60_000) })) as [IncomingMessage];
  const answered = await text(answer);
  sent.destroy();
  return [answer.statusCode ?? 0, answered];
}

describe('a client of E2B without a valid key', () => {
  const PATHS: Readonly<Record<string, Sent>> = {
    'a creation': { path: '/e2b/v2/sandboxes' },
    'a creation with a wrong key': { path: '/e2b/v2/sandboxes', headers: { 'x-api-key': 'clk_wrong' } },
    'an upload of files of a template': { method: 'PUT', path: '/e2b/template-files?token=wrong' },
    'a call': { path: '/e2b-box/filesystem.Filesystem/Stat' },
    'a stream': { path: '/e2b-box/process.Process/Start', headers: { 'content-type': 'application/connect+json' } },
    'a file': { path: '/e2b-box/files?path=/tmp/x', headers: { 'content-type': 'application/octet-stream' } },
    'a form': { path: '/e2b-box/files', headers: { 'content-type': 'multipart/form-data; boundary=X' } },
    'a run': { path: '/e2b-box/execute', headers: { 'e2b-sandbox-port': '49999' } },
    'a signed URL': { path: `/files?path=/tmp/x&signature=${SIGNATURE}` },
  };
  for (const [name, sent] of Object.entries(PATHS)) {
    it(`a client of E2B without a valid key is refused before its body has come: ${name}`, async () => {
      const [status, body] = await send(sent);
      assert.ok(status === 401 || status === 403, `${status} ${body}`);
      assert.ok(JSON.parse(body).message, body);
    });
  }

  it('a client of E2B without a valid key whose key has ended is refused, also with the token of a sandbox', async () => {
    const { key } = await tenants.operator('/keys', { org: 'other', scopes: ['*'] });
    const box = await new E2bBoxes(tenants.server.url).create(key.secret);
    const headers = new E2bBoxes(tenants.server.url).headers(box, '49983');
    const call: Sent = { path: '/e2b-box/filesystem.Filesystem/Stat', headers, body: '{"path":"/workspace"}' };
    assert.equal((await send(call))[0], 200);
    await tenants.call(key.secret, 'DELETE', `/v1/api-keys/${key.id}`);
    const [status, body] = await send(call);
    assert.deepEqual([status, JSON.parse(body).code], [401, 'unauthenticated']);
  });

  it('a client of E2B without a valid key learns whether a sandbox runs, and nothing else of it', async () => {
    const box = await new E2bBoxes(tenants.server.url).create(tenants.keys.whole);
    const health = async (id: string) =>
      (await send({ method: 'GET', path: '/e2b-box/health', headers: { 'e2b-sandbox-id': id }, body: '' }))[0];
    assert.equal(await health(box.sandboxId), 204);
    assert.equal(await health(`${box.sandboxId.slice(0, -1)}x`), 502);
    assert.equal(await health('x'.repeat(10_000)), 502);
  });
});

describe('the address of a client of another protocol', () => {
  const create = (headers: Record<string, string>): Sent => ({
    path: '/e2b/v2/sandboxes',
    headers,
    body: JSON.stringify({ templateID: 'base' }),
  });

  async function lastAddress(): Promise<string | undefined> {
    const { data } = (await tenants.call(tenants.keys.whole, 'GET', '/v1/audit-events?limit=100')).body;
    return (data as AuditEvent[]).at(-1)?.ip;
  }

  it('the address of a client of another protocol is in the audit log', async () => {
    assert.equal((await send(create({ 'x-api-key': tenants.keys.whole })))[0], 201);
    assert.equal(await lastAddress(), CLIENT);
  });

  it('the address of a client of another protocol is not what the client says', async () => {
    const said = { 'cloche-caller': '192.0.2.1 signature' };
    assert.equal((await send(create({ 'x-api-key': tenants.keys.whole, ...said })))[0], 201);
    assert.equal(await lastAddress(), CLIENT);
    const headers = { authorization: `Bearer ${tenants.keys.whole}`, 'idempotency-key': 'said', ...said };
    assert.equal((await send({ path: '/v1/sandboxes', headers, body: '{}' }))[0], 201);
    assert.equal(await lastAddress(), CLIENT);
  });

  it('the address of a client of another protocol waits after wrong keys of its own, and not after those of others', async () => {
    const wrong = () => send(create({ 'x-api-key': 'clk_wrong' }));
    const [own, ownMs] = await timed(() => Promise.all(Array.from({ length: 40 }, wrong)));
    assert.deepEqual([...new Set(own.map(([status]) => status))].sort(), [401, 429]);
    const authorization = 'Bearer clk_wrong';
    const [other, otherMs] = await timed(() =>
      fetch(`${tenants.server.url}/v1/sandboxes`, { headers: { authorization } }),
    );
    assert.equal(other.status, 401);
    assert.ok(otherMs < ownMs / 2, `${otherMs} and ${ownMs} ms`);
  });
});

async function timed<T>(act: () => Promise<T>): Promise<[result: T, ms: number]> {
  const began = performance.now();
  return [await act(), performance.now() - began];
}
