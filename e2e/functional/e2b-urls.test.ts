/** Holds the URLs that E2B's clients make by themselves: signed URLs of files, and hosts of ports. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type IncomingMessage, request } from 'node:http';
import { text } from 'node:stream/consumers';
import { after, before, describe, it } from 'node:test';
import { eventually } from '@cloche/testkit/eventually';
import { getSignature, Sandbox } from 'e2b';
import * as older from 'e2b-older';
import { type E2bOptions, e2bOptions, LASTING } from '../support/e2b-options.ts';
import { sharedService, type TestService } from '../support/service.ts';

let service: TestService;
let options: E2bOptions;
let sandbox: Sandbox;
before(async () => {
  service = await sharedService();
  options = e2bOptions(service);
  const network = { allowPublicTraffic: false };
  sandbox = await Sandbox.create({ ...options, network, timeoutMs: 300_000 });
});
after(async () => {
  await sandbox?.kill();
  await service?.close();
});

const tokenOf = (box: Sandbox) => (box as unknown as { envdAccessToken: string }).envdAccessToken;

describe('signed URLs of files', () => {
  it('upload and download, of both clients, in a form and as bytes', async () => {
    const previous = await older.Sandbox.connect(sandbox.sandboxId, options);
    for (const [name, box] of Object.entries({ newest: sandbox, older: previous })) {
      const form = new FormData();
      form.append('file', new Blob([`form of ${name}`]), 'ignored.txt');
      const path = `/tmp/${name}.txt`;
      const uploaded = await fetch(await box.uploadUrl(path), { method: 'POST', body: form });
      const [written] = (await uploaded.json()) as { path: string }[];
      assert.deepEqual([uploaded.status, written?.path], [200, path]);
      const url = await box.downloadUrl(path);
      for (const down of [url, url.replace('/files?', '/e2b-box/files?')])
        assert.equal(await (await fetch(down)).text(), `form of ${name}`);
    }
    const headers = { 'content-type': 'application/octet-stream' };
    const url = await sandbox.uploadUrl('bytes.bin', { user: 'root', useSignatureExpiration: 60 });
    assert.equal((await fetch(url, { method: 'POST', body: 'bytes', headers })).status, 200);
    assert.equal(await sandbox.files.read('/root/bytes.bin', { user: 'root' }), 'bytes');
  });

  it('a signed URL opens one file, to read or to write, in time', async () => {
    await sandbox.files.write('/tmp/signed.txt', 'signed');
    const url = new URL(await sandbox.downloadUrl('/tmp/signed.txt', { useSignatureExpiration: 60 }));
    const changed = (change: (query: URLSearchParams) => void) => {
      const other = new URL(url);
      change(other.searchParams);
      return fetch(other);
    };
    assert.equal((await changed(() => undefined)).status, 200);
    assert.equal((await fetch(url, { method: 'POST', body: new FormData() })).status, 401);
    assert.equal((await fetch(url, { method: 'POST', body: 'x', headers: OCTETS })).status, 401);
    const later = String(Math.floor(Date.now() / 1000) + 120);
    const refusals = {
      'another file': changed((query) => query.set('path', '/etc/hostname')),
      'another user': changed((query) => query.set('username', 'root')),
      'a user that is part of a path': changed((query) => query.set('username', 'x:read:')),
      'another time': changed((query) => query.set('signature_expiration', later)),
      'no time': changed((query) => query.delete('signature_expiration')),
      'no signature': changed((query) => query.delete('signature')),
      'a signature that is none': changed((query) => query.set('signature', 'v1_x')),
    };
    for (const [name, answer] of Object.entries(refusals)) assert.equal((await answer).status, 401, name);
    const past = { path: '/tmp/signed.txt', operation: 'read', user: undefined, expirationInSeconds: -1 } as const;
    const { signature, expiration } = await getSignature({ ...past, envdAccessToken: tokenOf(sandbox) });
    const expired = await changed((query) => {
      query.set('signature', signature);
      query.set('signature_expiration', String(expiration));
    });
    assert.match(await expired.text(), /expired/);
  });

  it('a signature has the rights of the key, and ends with the sandbox', async () => {
    const reading = await service.createKey({ scopes: ['sandbox:read', 'file:read'] });
    const reader = await Sandbox.connect(sandbox.sandboxId, { ...options, apiKey: reading });
    await sandbox.files.write('/tmp/rights.txt', 'x');
    assert.equal((await fetch(await reader.downloadUrl('/tmp/rights.txt'))).status, 200);
    const upload = await fetch(await reader.uploadUrl('/tmp/rights.txt'), {
      method: 'POST',
      body: 'y',
      headers: OCTETS,
    });
    assert.equal(upload.status, 403);
    const ended = await Sandbox.create({ ...options, ...LASTING });
    const url = await ended.downloadUrl('/etc/hostname');
    assert.equal((await fetch(url)).status, 200);
    await ended.kill();
    assert.equal((await fetch(url)).status, 404);
  });
});

const OCTETS = { 'content-type': 'application/octet-stream' };

/** Answers with the path, the host and the secrets of a request that it was sent. */
const APP = `
import http.server
class App(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        secrets = [name for name in self.headers if 'token' in name.lower()]
        body = f"{self.path} {self.headers['host'].split('.')[0][:4]} {secrets}".encode()
        self.send_response(404 if self.path == '/missing' else 200)
        self.send_header('content-length', str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *_): pass
http.server.HTTPServer(('127.0.0.1', 3000), App).serve_forever()
`;

describe('hosts of ports', () => {
  before(async () => {
    await sandbox.files.write('/tmp/app.py', APP);
    await sandbox.commands.run('python3 /tmp/app.py', { background: true, timeoutMs: 0 });
    await eventually(async () => (await visit(sandbox, '/ready')).status === 200, { because: 'the app listens' });
  });

  it('getHost names a preview of the port, opened once', async () => {
    assert.match(sandbox.getHost(3000), new RegExp(`^3000-${sandbox.sandboxId}\\.`));
    for (const path of ['/hello?a=b', '/missing', '/again'])
      assert.equal((await visit(sandbox, path)).body, `${path} prv- []`);
    const hyphenated = sandbox.getHost(3000).replace('_', '-');
    assert.equal((await visit(sandbox, '/', sandbox.trafficAccessToken, hyphenated)).body, '/ prv- []');
    assert.equal((await previews()).length, 1);
    const found = await Sandbox.connect(sandbox.sandboxId, options);
    assert.equal(found.getHost(3000), sandbox.getHost(3000));
  });

  it('a port is reached with the token of its sandbox alone, if its client asked for that', async () => {
    const other = await Sandbox.create({ ...options, ...LASTING });
    for (const token of ['', 'x', other.trafficAccessToken]) {
      const { status, body } = await visit(sandbox, '/', token);
      assert.equal(status, 401, body);
    }
    await other.kill();
    const reading = await service.createKey({ scopes: ['sandbox:read'] });
    const reader = await Sandbox.connect(sandbox.sandboxId, { ...options, apiKey: reading });
    assert.equal((await visit(reader, '/')).status, 403);
  });

  it('a port is public otherwise, and its app sees the host that the client names', async () => {
    const open = await Sandbox.create({ ...options, ...LASTING });
    await open.files.write('/tmp/app.py', APP);
    await open.commands.run('python3 /tmp/app.py', { background: true, timeoutMs: 0 });
    await eventually(async () => (await visit(open, '/', '')).status === 200, { because: 'the app listens' });
    for (const token of ['', 'x', open.trafficAccessToken])
      assert.deepEqual(await visit(open, '/a?b', token), { status: 200, body: '/a?b 3000 []' });
    await open.kill();
    assert.equal((await visit(open, '/', '')).status, 401);
  });

  it('a preview that was deleted is opened again', async () => {
    const [preview] = await previews();
    await service.api.delete(`/v1/previews/${preview?.id}`);
    await eventually(async () => (await visit(sandbox, '/anew')).status === 200, {
      because: 'another preview is opened',
    });
    assert.equal((await previews()).length, 1);
  });

  it('a WebSocket without a token is refused', async () => {
    const headers = { connection: 'Upgrade', upgrade: 'websocket' };
    const refused = request(service.url, { headers: { ...headers, host: sandbox.getHost(3000) } }).end();
    const [response] = (await once(refused, 'response')) as [IncomingMessage];
    assert.equal(response.statusCode, 401);
    response.resume();
  });
});

async function previews(): Promise<{ id: string }[]> {
  return (await service.api.get(`/v1/sandboxes/${sandbox.sandboxId}/previews`)).body.data;
}

/** Sends a request to port 3000. The name of the host is not resolved: Node does not resolve names below localhost. */
async function visit(box: Sandbox, path: string, token = box.trafficAccessToken, host = box.getHost(3000)) {
  const headers = { host, ...(token ? { 'e2b-traffic-access-token': token } : {}) };
  const sent = request(service.url, { path, headers }).end();
  const [response] = (await once(sent, 'response')) as [IncomingMessage];
  return { status: response.statusCode, body: await text(response) };
}
