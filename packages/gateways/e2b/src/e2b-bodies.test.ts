/** Bodies and fields that E2B's protocol bounds, on a whole server with a fake runtime. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, request } from 'node:http';
import type { AddressInfo } from 'node:net';
import { after, before, describe, it } from 'node:test';
import { gzipSync } from 'node:zlib';
import { BOX, type E2bBox, E2bBoxes, INTERPRETER } from '../../../service/server/testing/e2b-boxes.ts';
import { openTenants, type Tenants } from '../../../service/server/testing/tenants.ts';

const MEBIBYTE = 2 ** 20;

let tenants: Tenants;
let boxes: E2bBoxes;
let box: E2bBox;
before(async () => {
  tenants = await openTenants({ CLOCHE_E2B: 'on' });
  boxes = new E2bBoxes(tenants.server.url);
  box = await boxes.create(tenants.keys.whole);
});
after(() => tenants?.close());

function deep(levels: number): string {
  return `${'['.repeat(levels)}${']'.repeat(levels)}`;
}

function post(path: string, headers: Record<string, string>, body: string | Uint8Array<ArrayBuffer>) {
  return fetch(tenants.server.url + path, { method: 'POST', headers, body });
}

describe('a call of Connect', () => {
  const STAT = '/e2b-box/filesystem.Filesystem/Stat';
  const call = (path: string, type: string, body: string | Uint8Array<ArrayBuffer>, fields = {}) =>
    post(path, { ...boxes.headers(box, BOX), 'content-type': type, ...fields }, body);
  const wide = (values: number) => JSON.stringify({ path: '/', more: Array(values).fill(1) });

  it('a call of Connect has at most 8 MiB, and is never decompressed', async () => {
    const padded = (bytes: number) => JSON.stringify({ path: '/workspace' }).padEnd(bytes);
    assert.equal((await call(STAT, 'application/json', padded(8 * MEBIBYTE))).status, 200);
    assert.equal((await call(STAT, 'application/json', padded(8 * MEBIBYTE + 1))).status, 413);
    const zipped = new Uint8Array(gzipSync(padded(1024)));
    const refused = await call(STAT, 'application/json', zipped, { 'content-encoding': 'gzip' });
    assert.equal(refused.status, 501);
    assert.equal((await call(STAT, 'application/grpc-web+json', padded(64))).status, 415);
  });

  it('a call of Connect may have fields that this version does not know', async () => {
    const body = JSON.stringify({ path: '/workspace', more: { of: ['a newer version'] } });
    assert.equal((await call(STAT, 'application/json', body)).status, 200);
  });

  it('a call of Connect has at most 100,000 values and 256 levels, in one message and in each of a stream', async () => {
    const frame = (text: string) => {
      const head = Buffer.alloc(5);
      head.writeUInt32BE(text.length, 1);
      return new Uint8Array(Buffer.concat([head, Buffer.from(text)]));
    };
    for (const body of [deep(1000), wide(100_001)]) {
      assert.equal((await call(STAT, 'application/json', body)).status, 400);
      const streamed = await call('/e2b-box/process.Process/Start', 'application/connect+json', frame(body));
      assert.match(await streamed.text(), /"code":"invalid_argument"/);
    }
  });

  it('a call of Connect sends no more signs of life than one a second, however long its client asked to wait', async () => {
    const text = JSON.stringify({ process: { cmd: 'bash', args: ['sleep 300'] } });
    const head = Buffer.alloc(5);
    head.writeUInt32BE(text.length, 1);
    const body = new Uint8Array(Buffer.concat([head, Buffer.from(text)]));
    const path = '/e2b-box/process.Process/Start';
    const answer = await call(path, 'application/connect+json', body, { 'keepalive-ping-interval': '99999999999' });
    assert.doesNotMatch(await answer.text(), /keepalive/);
  });
});

describe('a form of E2B’s protocol', () => {
  const PATH = '/e2b-box/files?path=/workspace/of-a-form';
  const send = (path: string, form: FormData) =>
    fetch(tenants.server.url + path, { method: 'POST', headers: boxes.headers(box, BOX), body: form });

  it('a form of E2B’s protocol may leave out the name of its file', async () => {
    const form = new FormData();
    form.append('file', 'without a name');
    assert.equal((await send(PATH, form)).status, 200);
    const stored = await fetch(tenants.server.url + PATH, { headers: boxes.headers(box, BOX) });
    assert.equal(await stored.text(), 'without a name');
  });

  it('a form of E2B’s protocol has no other field, which would be kept in memory', async () => {
    for (const type of ['text/plain', 'application/json']) {
      const field = `--X\r\ncontent-disposition: form-data; name="more"\r\ncontent-type: ${type}\r\n\r\n[]\r\n--X--\r\n`;
      const headers = { ...boxes.headers(box, BOX), 'content-type': 'multipart/form-data; boundary=X' };
      assert.equal((await post(PATH, headers, field)).status, 413, type);
    }
  });
});

it('a file is not read for HEAD', async () => {
  const path = `${tenants.server.url}/e2b-box/files?path=/workspace`;
  const { status } = await fetch(path, { method: 'HEAD', headers: boxes.headers(box, BOX) });
  assert.equal(status, 501);
});

describe('what a client of E2B sends as JSON', () => {
  it('what a client of E2B sends as JSON has at most 100,000 values and 256 levels', async () => {
    const headers = { 'x-api-key': tenants.keys.whole, 'content-type': 'application/json' };
    for (const more of [JSON.stringify(Array(100_001).fill(1)), deep(257)]) {
      assert.equal((await post('/e2b/v2/sandboxes', headers, `{"templateID":"base","more":${more}}`)).status, 400);
    }
  });

  it('what a client of E2B sends as JSON sets no variables in a context that does not say which ones it had', async () => {
    const refused = await boxes.call(box, {
      port: INTERPRETER,
      path: '/execute',
      body: { code: 'print 1', env_vars: { NAME: 'value' } },
    });
    assert.equal(refused.status, 400, await refused.text());
  });

  it('what a client of E2B sends as JSON is refused before anything runs for variables that no program can have', async () => {
    for (const env_vars of [{ 'a=b': 'x' }, { '': 'x' }, { 'a\0': 'x' }, { a: '\0' }, { '=': '' }])
      for (const language of ['python', 'js', 'bash']) {
        const body = { code: 'print 1', env_vars, language };
        const refused = await boxes.call(box, { port: INTERPRETER, path: '/execute', body });
        const text = await refused.text();
        assert.deepEqual([refused.status, /env_vars/.test(text)], [400, true], text);
      }
  });
});

it('an upload of files of a template without a body is written as an empty file', async () => {
  const hash = 'a'.repeat(64);
  const asked = await fetch(`${tenants.server.url}/e2b/templates/mine/files/${hash}`, {
    headers: { 'x-api-key': tenants.keys.whole },
  });
  const { url } = (await asked.json()) as { url: string };
  const stored = await fetch(url, { method: 'PUT', headers: { 'content-length': '0' } });
  // The fake's folder for it is closed, so that the refusal is that of the file.
  assert.match(await stored.text(), /permission_denied: \/tmp\/files.tar/);
});

it('a port that E2B’s clients name gets no token of its sandbox', async () => {
  const seen = Promise.withResolvers<Record<string, unknown>>();
  const app = createServer(({ headers }, response) => {
    seen.resolve(headers);
    response.end();
  });
  await once(app.listen(0, '127.0.0.1'), 'listening');
  tenants.driver.agentOf(box.sandboxId).ports.map(8000, (app.address() as AddressInfo).port);
  const { hostname, port } = new URL(tenants.server.url);
  const headers = {
    host: `8000-${box.sandboxId}.localhost:${port}`,
    'e2b-traffic-access-token': box.token,
    'x-access-token': box.token,
    'x-own': 'kept',
  };
  request({ hostname, port, headers, agent: false }, (answer) => answer.resume()).end();
  const passed = await seen.promise;
  app.close();
  assert.equal(passed['x-own'], 'kept');
  assert.ok(!JSON.stringify(passed).includes(box.token));
});
