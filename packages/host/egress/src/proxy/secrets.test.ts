/** Tries to have a value sent where it may not go, and to get hold of it. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import type { Server } from 'node:http';
import { connect as connectHttp2 } from 'node:http2';
import type { Server as SecureServer } from 'node:https';
import type { Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { after, afterEach, before, describe, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { makePlaceholder } from '@cloche/protocol';
import { eventually } from '@cloche/testkit/eventually';
import { EgressRig } from '../../testing/egress-rig.ts';
import { SecretServer } from '../../testing/secret-server.ts';
import { httpServer, httpsServer, portOf } from '../../testing/test-servers.ts';
import { SecretClient } from '../secrets/secret-source.ts';

const EVERYTHING = { mode: 'denylist' as const, hosts: [] };
const VALUE = 'the value/of+the secret ü';
/** As a field has it: each byte of UTF-8 as a character. */
const ON_THE_WIRE = Buffer.from(VALUE).toString('latin1');
const PLACEHOLDER = makePlaceholder();
const OTHER = makePlaceholder();

const folder = mkdtempSync(join(tmpdir(), 'cloche-secrets-'));
const server = new SecretServer(join(folder, 'secrets.sock'), 'api.example');
let rig: EgressRig;
let api: SecureServer;
let elsewhere: SecureServer;
let plain: Server;
let served: { fields: string[]; url: string | undefined; body: string }[] = [];

before(async () => {
  await server.start();
  rig = await EgressRig.open(EVERYTHING, { secretSource: new SecretClient(join(folder, 'secrets.sock')) });
  rig.name('api.example', 'elsewhere.example');
  const serve = async (request: import('node:http').IncomingMessage, response: import('node:http').ServerResponse) => {
    served.push({ fields: request.rawHeaders, url: request.url, body: await text(request) });
    const authorization = request.headers.authorization ?? '';
    response.writeHead(200, authorization.slice(0, 40), { 'X-Echo': authorization, Location: `/?${authorization}` });
    response.end(`served ${authorization}`);
  };
  api = await httpsServer(rig.serverAuthority, 'api.example', serve);
  api.on('upgrade', (request, socket: Socket) => {
    served.push({ fields: request.rawHeaders, url: request.url, body: '' });
    const { authorization } = request.headers;
    if (request.url === '/no')
      socket.end(`HTTP/1.1 401 No\r\nX-Echo: ${authorization}\r\nContent-Length: 0\r\n\r\n`, 'latin1');
    else {
      const head = 'HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade';
      socket.end(`${head}\r\nX-Echo: ${authorization}\r\n\r\n`, 'latin1');
    }
  });
  elsewhere = await httpsServer(rig.serverAuthority, 'elsewhere.example', serve);
  plain = await httpServer(serve);
});
afterEach(() => {
  served = [];
  server.asked.length = 0;
  server.gate = undefined;
  server.status = 200;
  server.values.clear();
  server.values.set(PLACEHOLDER, VALUE);
});
server.values.set(PLACEHOLDER, VALUE);
after(async () => {
  await rig[Symbol.asyncDispose]();
  await server.stop();
  for (const each of [api, elsewhere, plain]) each.close();
  rmSync(folder, { recursive: true });
});

interface Sent {
  fields?: readonly string[];
  path?: string;
  body?: string;
  host?: string;
}

function requestText({ fields = [], path = '/', body = '', host = 'api.example' }: Sent): string {
  const lines = [...fields, 'Connection: close', ...(body ? [`Content-Length: ${body.length}`] : [])];
  return `${body ? 'POST' : 'GET'} ${path} HTTP/1.1\r\nHost: ${host}\r\n${lines.join('\r\n')}\r\n\r\n${body}`;
}

async function send(sent: Sent): Promise<string> {
  const { host = 'api.example' } = sent;
  rig.destination = { address: '203.0.113.7', port: portOf(host === 'api.example' ? api : elsewhere) };
  return rig.send(requestText(sent), await rig.connectTls({ servername: host }));
}

const fieldOf = (name: string, index = 0) => {
  const fields = served[index]?.fields ?? [];
  return fields[fields.findIndex((field) => field.toLowerCase() === name.toLowerCase()) + 1];
};
const bearer = (token: string) => [`Authorization: Bearer ${token}`];
const basic = (credentials: string) => Buffer.from(credentials).toString('base64');
const unbasic = (field = '') => Buffer.from(field.replace(/^basic /i, ''), 'base64').toString();

describe('the value of a secret', () => {
  test('the value of a secret takes the place of the placeholder in every field value of a request to its host', async () => {
    await send({ fields: [...bearer(PLACEHOLDER), `X-Key: a${PLACEHOLDER}b${PLACEHOLDER}`, `Cookie: k=${OTHER}`] });
    assert.equal(fieldOf('authorization'), `Bearer ${ON_THE_WIRE}`);
    assert.equal(fieldOf('x-key'), `a${ON_THE_WIRE}b${ON_THE_WIRE}`);
    assert.equal(fieldOf('cookie'), `k=${OTHER}`);
  });

  test('the value of a secret takes its place within Basic authentication, as user, as password, and beside other text', async () => {
    for (const credentials of [`me:${PLACEHOLDER}`, `${PLACEHOLDER}:`, `${PLACEHOLDER}:${PLACEHOLDER}`]) {
      await send({ fields: [`Authorization: Basic ${basic(credentials)}`] });
      assert.equal(unbasic(fieldOf('authorization', served.length - 1)), credentials.replaceAll(PLACEHOLDER, VALUE));
    }
    const unpadded = basic(`a:${PLACEHOLDER}`).replace(/=+$/, '');
    await send({ fields: [`authorization: bAsIc  ${unpadded}`] });
    assert.match(unbasic(fieldOf('authorization', served.length - 1)), /the value/);
  });

  test('the value of a secret takes its place in HTTP/2 requests', async () => {
    rig.destination = { address: '203.0.113.7', port: portOf(api) };
    const socket = await rig.connectTls({ servername: 'api.example', ALPNProtocols: ['h2'] });
    const session = connectHttp2('https://api.example', { createConnection: () => socket });
    const stream = session.request({ ':path': '/', authorization: `Bearer ${PLACEHOLDER}` });
    const [headers] = await once(stream, 'response');
    await text(stream);
    session.destroy();
    assert.equal(fieldOf('authorization'), `Bearer ${ON_THE_WIRE}`);
    assert.equal(headers['x-echo'], `Bearer ${PLACEHOLDER}`);
  });

  test('the value of a secret takes its place in requests for WebSockets, and is hidden in both kinds of answers', async () => {
    const upgrade = ['Connection: Upgrade', 'Upgrade: websocket', 'Sec-WebSocket-Key: abc', ...bearer(PLACEHOLDER)];
    for (const [path, status] of [
      ['/', 101],
      ['/no', 401],
    ] as const) {
      rig.destination = { address: '203.0.113.7', port: portOf(api) };
      const head = `GET ${path} HTTP/1.1\r\nHost: api.example\r\n${upgrade.join('\r\n')}\r\n\r\n`;
      const answer = await rig.send(head, await rig.connectTls({ servername: 'api.example' }));
      assert.match(answer, new RegExp(`^HTTP/1.1 ${status} .*X-Echo: Bearer ${PLACEHOLDER}\r\n`, 's'));
      assert.equal(fieldOf('authorization', served.length - 1), `Bearer ${ON_THE_WIRE}`);
    }
  });

  test('the value of a secret takes its place also when the request arrives byte by byte', async () => {
    rig.destination = { address: '203.0.113.7', port: portOf(api) };
    const socket = await rig.connectTls({ servername: 'api.example' });
    const received = rig.readAll(socket);
    for (const byte of requestText({ fields: bearer(PLACEHOLDER) })) {
      socket.write(byte);
      await delay(1);
    }
    await received;
    assert.equal(fieldOf('authorization'), `Bearer ${ON_THE_WIRE}`);
  });

  test('the value of a secret is hidden in the status line and the fields of the answer, but not in its body', async () => {
    const answer = await send({ fields: bearer(PLACEHOLDER) });
    const [head = '', body = ''] = answer.split('\r\n\r\n');
    assert.match(head, new RegExp(`^HTTP/1.1 200 Bearer ${PLACEHOLDER}\r\n`));
    assert.match(head, new RegExp(`Location: /\\?Bearer ${PLACEHOLDER}`));
    assert.ok(!head.includes('the value'));
    // The documented limit: a host that may have the value can give it away.
    assert.ok(body.includes('the value'));
  });

  test('the value of a secret that is shorter than eight characters is not looked for in the answer', async () => {
    server.values.set(PLACEHOLDER, 'HTTP');
    assert.match(await send({ fields: bearer(PLACEHOLDER) }), /^HTTP\/1\.1 200 .*X-Echo: Bearer HTTP\r\n/s);
  });

  test('the value of a secret has the change in force for the next request, and none after the deletion', async () => {
    for (const value of ['first value', 'second value']) {
      server.values.set(PLACEHOLDER, value);
      await send({ fields: bearer(PLACEHOLDER) });
      assert.equal(fieldOf('authorization', served.length - 1), `Bearer ${value}`);
    }
    server.values.delete(PLACEHOLDER);
    await send({ fields: bearer(PLACEHOLDER) });
    assert.equal(fieldOf('authorization', 2), `Bearer ${PLACEHOLDER}`);
  });
});

describe('the placeholder travels as it is', () => {
  test('to another host, also if the request names both', async () => {
    await send({ fields: bearer(PLACEHOLDER), host: 'elsewhere.example' });
    assert.equal(fieldOf('authorization'), `Bearer ${PLACEHOLDER}`);
    rig.destination = { address: '203.0.113.7', port: portOf(elsewhere) };
    const named = `GET https://api.example/ HTTP/1.1\r\nHost: elsewhere.example\r\n${bearer(PLACEHOLDER)}\r\n\r\n`;
    assert.match(await rig.send(named, await rig.connectTls({ servername: 'elsewhere.example' })), /^HTTP\/1\.1 400/);
    const fronted = requestText({ fields: bearer(PLACEHOLDER), host: 'api.example' });
    assert.match(await rig.send(fronted, await rig.connectTls({ servername: 'elsewhere.example' })), /^HTTP\/1\.1 403/);
    assert.equal(served.length, 1);
  });

  test('over plain HTTP, and the server is not even asked', async () => {
    rig.destination = { address: '203.0.113.7', port: portOf(plain) };
    await rig.send(requestText({ fields: bearer(PLACEHOLDER) }));
    assert.equal(fieldOf('authorization'), `Bearer ${PLACEHOLDER}`);
    assert.deepEqual(server.asked, []);
  });

  test('in the URL, in the body and in the names of fields', async () => {
    await send({ path: `/${PLACEHOLDER}?k=${PLACEHOLDER}`, body: PLACEHOLDER, fields: [`${PLACEHOLDER}: x`] });
    assert.equal(served[0]?.url, `/${PLACEHOLDER}?k=${PLACEHOLDER}`);
    assert.equal(served[0]?.body, PLACEHOLDER);
    assert.ok(served[0]?.fields.includes(PLACEHOLDER));
    assert.deepEqual(server.asked, []);
  });

  test('the placeholder travels as it is in two pieces of a value or of two fields', async () => {
    const [half, rest] = [PLACEHOLDER.slice(0, 20), PLACEHOLDER.slice(20)];
    await send({ fields: [`X-Key: ${half} ${rest}`, `X-Half: ${half}`, `X-Half: ${rest}`] });
    assert.equal(fieldOf('x-key'), `${half} ${rest}`);
    assert.equal(fieldOf('x-half'), half);
  });

  test('the placeholder travels as it is in base64 that is not Basic authentication', async () => {
    await send({ fields: [`Authorization: Bearer ${basic(PLACEHOLDER)}`, `X-Key: ${basic(PLACEHOLDER)}`] });
    assert.equal(fieldOf('authorization'), `Bearer ${basic(PLACEHOLDER)}`);
    assert.equal(fieldOf('x-key'), basic(PLACEHOLDER));
  });
});

describe('a secret', () => {
  test('a secret opens no host that the policy closes', async () => {
    const closing = [
      { mode: 'denylist', hosts: ['api.example'] },
      { mode: 'denylist', hosts: ['*.example'] },
      { mode: 'allowlist', hosts: ['other.example'] },
      { mode: 'allowlist', hosts: ['*.api.example'] },
    ] as const;
    for (const { mode, hosts } of closing) {
      rig.setPolicy({ mode, hosts: [...hosts] });
      assert.match(await send({ fields: bearer(PLACEHOLDER) }), /^HTTP\/1\.1 403 .*"reason":"policy"/s);
    }
    rig.setPolicy(EVERYTHING);
    assert.deepEqual([served, server.asked], [[], []]);
  });

  test('a secret is in no decision', async () => {
    rig.decisions.length = 0;
    await send({ fields: bearer(PLACEHOLDER) });
    assert.deepEqual(
      rig.decisions.map(({ verdict, host }) => [verdict, host]),
      [['permitted', 'api.example']],
    );
    assert.doesNotMatch(JSON.stringify([rig.decisions, rig.failures]), /the value/);
  });

  test('a secret of a request that the server gives no values for refuses the request, which goes nowhere', async () => {
    server.status = 500;
    assert.match(await send({ fields: bearer(PLACEHOLDER) }), /^HTTP\/1\.1 503 .*"reason":"secrets"/s);
    server.values.set(PLACEHOLDER, 'x'.repeat(8192));
    server.status = 200;
    const long = Array.from({ length: 9 }, (_, index) => `X-${index}: ${PLACEHOLDER}`);
    assert.match(await send({ fields: long }), /^HTTP\/1\.1 503 .*"reason":"secrets"/s);
    assert.deepEqual(served, []);
  });

  test('a secret is there for a request that waited while the server started again', async () => {
    await server.stop();
    const sent = send({ fields: bearer(PLACEHOLDER) });
    await delay(300);
    assert.deepEqual(served, []);
    await server.start();
    await sent;
    assert.equal(fieldOf('authorization'), `Bearer ${ON_THE_WIRE}`);
  });

  test('a secret is not sent for a client that left while the server was asked', async () => {
    const { promise, resolve } = Promise.withResolvers<void>();
    server.gate = promise;
    rig.destination = { address: '203.0.113.7', port: portOf(api) };
    const socket = await rig.connectTls({ servername: 'api.example' });
    socket.write(requestText({ fields: bearer(PLACEHOLDER) }));
    await eventually(() => server.asked.length > 0, { because: 'the server is asked' });
    socket.destroy();
    await delay(50);
    resolve();
    await delay(100);
    assert.deepEqual(served, []);
  });

  test('a secret is asked about for many requests at a time with few messages of bounded size', async () => {
    rig.destination = { address: '203.0.113.7', port: portOf(api) };
    const socket = await rig.connectTls({ servername: 'api.example', ALPNProtocols: ['h2'] });
    const session = connectHttp2('https://api.example', { createConnection: () => socket });
    const fields = { ':path': '/', authorization: `Bearer ${PLACEHOLDER}`, 'x-key': `${OTHER}` };
    await Promise.all(Array.from({ length: 90 }, () => text(session.request(fields))));
    session.destroy();
    assert.equal(served.filter((each) => each.fields.includes(`Bearer ${ON_THE_WIRE}`)).length, 90);
    assert.ok(server.asked.length < 90, `${server.asked.length} messages`);
    assert.equal(server.asked.flatMap(({ questions }) => questions).length, 180);
    for (const { questions } of server.asked) assert.ok(questions.length <= 64);
  });
});
