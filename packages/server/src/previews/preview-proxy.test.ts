import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { after, before, describe, it } from 'node:test';
import type { Preview } from '@cloche/contract';
import { APP_PORT, openPreviewWorld, type PreviewWorld } from './previews.fixture.ts';

let world: PreviewWorld;
before(async () => {
  world = await openPreviewWorld();
});
after(() => world.close());

const SWITCH =
  'Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n';

/** Sends bytes as they are; what comes back until the end. */
async function raw(bytes: string): Promise<string> {
  const socket = world.connect();
  socket.write(bytes);
  let text = '';
  for await (const chunk of socket) text += chunk;
  return text;
}

/** What listens in the sandbox answers each connection with these bytes. */
async function serveBytes(bytes: string, port: number, ends = true): Promise<void> {
  const server = createServer((socket) => {
    socket.on('error', () => undefined);
    socket.once('data', () => (ends ? socket.end(bytes) : socket.write(bytes)));
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  server.unref();
  world.agent.ports.map(port, (server.address() as AddressInfo).port);
}

const echo = (request: IncomingMessage, response: ServerResponse) => {
  response.setHeader('content-type', 'application/json');
  response.end(JSON.stringify({ method: request.method, url: request.url, headers: request.headers }));
};

describe('a private preview', () => {
  let preview: Preview & { host: string };
  let token: string;
  before(async () => {
    await world.serve(echo);
    preview = await world.open();
    token = preview.accessToken ?? '';
  });

  it('asks for its token, and refuses another', async () => {
    const none = await world.ask(preview.host);
    assert.equal(none.status, 401);
    assert.match(none.text, /This preview is private/);
    const other = (await world.open()).accessToken ?? '';
    for (const wrong of ['', 'x', other, `${token}x`]) {
      const answer = await world.ask(preview.host, { headers: { 'x-cloche-preview-token': wrong } });
      assert.equal(answer.status, 403, wrong);
    }
    assert.equal((await world.ask(preview.host, { path: `/?cloche_token=${other}` })).status, 403);
    assert.equal((await world.ask(preview.host, { headers: { authorization: `Bearer ${world.key}` } })).status, 401);
  });

  it('takes its token as a header', async () => {
    const answer = await world.ask(preview.host, { headers: { 'X-Cloche-Preview-Token': token } });
    assert.equal(answer.status, 200);
  });

  it('turns the token of a link into a cookie and takes it out of the address', async () => {
    const entry = await world.ask(preview.host, { path: `/a/b?x=1&cloche_token=${token}&y=%20z` });
    assert.equal(entry.status, 302);
    assert.equal(entry.headers.location, `${preview.url}/a/b?x=1&y=%20z`);
    assert.equal(entry.headers['referrer-policy'], 'no-referrer');
    const [cookie = ''] = entry.headers['set-cookie'] ?? [];
    assert.match(cookie, /^cloche-preview=[\w-]+; Path=\/; HttpOnly; SameSite=Lax$/);
    const headers = { cookie: cookie.split(';')[0] ?? '' };
    assert.equal((await world.ask(preview.host, { path: '/a/b', headers })).status, 200);
  });

  it('does not lead elsewhere on entering', async () => {
    const entry = await world.ask(preview.host, { path: `//example.com/?cloche_token=${token}` });
    assert.equal(new URL(entry.headers.location ?? '').host, preview.host);
  });

  it('takes the token of the address of other requests as it is, without a redirect', async () => {
    const answer = await world.ask(preview.host, { method: 'POST', path: `/form?cloche_token=${token}`, body: 'x' });
    assert.deepEqual([answer.status, JSON.parse(answer.text).url], [200, '/form']);
  });

  it('does not take its cookie from pages of other origins, but for links', async () => {
    const cookie = `cloche-preview=${token}`;
    const status = async (method: string, headers: Record<string, string>) =>
      (await world.ask(preview.host, { method, headers: { cookie, ...headers } })).status;
    assert.equal(await status('GET', { 'sec-fetch-site': 'same-origin', 'sec-fetch-mode': 'cors' }), 200);
    assert.equal(await status('GET', { 'sec-fetch-site': 'cross-site', 'sec-fetch-mode': 'navigate' }), 200);
    assert.equal(await status('POST', { origin: preview.url }), 200);
    assert.equal(await status('GET', { 'sec-fetch-site': 'same-site', 'sec-fetch-mode': 'cors' }), 401);
    assert.equal(await status('POST', { 'sec-fetch-site': 'same-site', 'sec-fetch-mode': 'navigate' }), 401);
    assert.equal(await status('GET', { origin: 'http://prv-other.localhost' }), 401);
    assert.equal(await status('GET', { origin: 'null' }), 401);
  });

  it('is private to WebSockets too', async () => {
    const request = (more: string) => `GET / HTTP/1.1\r\nHost: ${preview.host}\r\n${SWITCH}${more}\r\n`;
    assert.match(await raw(request('')), /^HTTP\/1\.1 401 /);
    const foreign = `Cookie: cloche-preview=${token}\r\nOrigin: http://prv-other.localhost\r\n`;
    assert.match(await raw(request(foreign)), /^HTTP\/1\.1 401 /);
  });

  it('what opens a preview does not reach what is previewed', async () => {
    const answer = await world.ask(preview.host, {
      path: `/?cloche_token=${token}`,
      method: 'PUT',
      headers: {
        authorization: `Bearer ${world.key}`,
        cookie: ['mine=1; cloche-preview=x', `cloche-preview=${token}; other=2`],
        'x-cloche-preview-token': token,
        'x-cloche-anything': 'y',
      },
    });
    const { headers, url } = JSON.parse(answer.text);
    assert.deepEqual([url, headers.cookie, headers.authorization], ['/', 'mine=1; other=2', undefined]);
    assert.deepEqual(
      Object.keys(headers).filter((name) => name.startsWith('x-cloche')),
      [],
    );
    assert.ok(!answer.text.includes(token) && !answer.text.includes(world.key));
  });
});

describe('what is previewed', () => {
  let host: string;
  before(async () => {
    ({ host } = await world.open({ visibility: 'public' }));
  });

  it('gets a request as it was sent: method, path, fields of its own, and who asked', async () => {
    await world.serve(echo);
    for (const method of ['GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS']) {
      const path = '/a%2Fb//c;d?e=f&g=%00&cloche=1';
      const headers = {
        'x-own': ['one', 'two'],
        authorization: 'Basic eDp5',
        te: 'trailers',
        connection: 'x-hop',
        'x-hop': '1',
      };
      const answer = await world.ask(host, { method, path, headers });
      assert.equal(answer.status, 200, answer.text);
      const seen = JSON.parse(answer.text);
      assert.deepEqual([seen.method, seen.url], [method, path]);
      const { 'x-own': own, authorization, te, 'x-hop': hop } = seen.headers;
      assert.deepEqual([own, authorization, te, hop], ['one, two', 'Basic eDp5', undefined, undefined]);
      assert.equal(seen.headers.host, host);
      assert.equal(seen.headers['x-forwarded-host'], host);
      assert.equal(seen.headers['x-forwarded-proto'], 'http');
      assert.equal(seen.headers['x-forwarded-for'], '127.0.0.1');
    }
  });

  it('is answered for as it answers: status, fields, and no body where there is none', async () => {
    await world.serve((_, response) => {
      response.writeHead(404, 'Gone Fishing', [
        'X-Two',
        'a',
        'X-Two',
        'b',
        'Content-Length',
        '5',
        'Alt-Svc',
        'h3=":443"',
      ]);
      response.end('hello');
    });
    const answer = await world.ask(host);
    assert.deepEqual([answer.status, answer.text, answer.headers['x-two']], [404, 'hello', 'a, b']);
    assert.equal(answer.headers['alt-svc'], undefined);
    assert.equal(answer.headers['referrer-policy'], 'same-origin');
    const head = await world.ask(host, { method: 'HEAD' });
    assert.deepEqual([head.status, head.text, head.headers['content-length']], [404, '', '5']);
  });

  it('sets cookies of its own host alone, and never the one that opens the preview', async () => {
    await world.serve((_, response) => {
      response.setHeader('set-cookie', [
        'a=1; Domain=localhost; Path=/x; HttpOnly',
        'b=domain=2;domain=.localhost',
        'cloche-preview=stolen; Path=/',
        'c=3; DOMAIN = prv-other.localhost ; Secure',
      ]);
      response.end();
    });
    const { headers } = await world.ask(host);
    assert.deepEqual(headers['set-cookie'], ['a=1; Path=/x; HttpOnly', 'b=domain=2', 'c=3; Secure']);
  });

  it('streams: each event leaves when it is written', async () => {
    let next: (() => void) | undefined;
    await world.serve((_, response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      response.write('data: 0\n\n');
      let count = 0;
      next = () => response.write(`data: ${++count}\n\n`);
    });
    const socket = world.connect();
    socket.write(`GET /events HTTP/1.1\r\nHost: ${host}\r\n\r\n`);
    let text = '';
    for (let count = 0; count < 5; count++) {
      while (!text.includes(`data: ${count}\n`)) text += (await once(socket, 'data'))[0];
      next?.();
    }
    socket.destroy();
  });

  it('learns that its client has left', async () => {
    const left = Promise.withResolvers<void>();
    await world.serve((_, response) => {
      response.once('close', left.resolve).write('begun');
    });
    const socket = world.connect();
    socket.write(`GET / HTTP/1.1\r\nHost: ${host}\r\n\r\n`);
    await once(socket, 'data');
    socket.destroy();
    await left.promise;
  });

  it('takes and gives large bodies no faster than the other side', async () => {
    const size = 64 * 2 ** 20;
    let taken = 0;
    let release: (() => void) | undefined;
    await world.serve(async (request, response) => {
      await new Promise<void>((resolve) => {
        release = resolve;
      });
      const hash = createHash('sha256');
      for await (const chunk of request) {
        hash.update(chunk);
        taken += chunk.length;
      }
      response.end(hash.digest('hex'));
    });
    const socket = world.connect();
    socket.write(`POST / HTTP/1.1\r\nHost: ${host}\r\nContent-Length: ${size}\r\n\r\n`);
    const chunk = Buffer.alloc(2 ** 20, 7);
    let sent = 0;
    const pump = () => {
      while (sent < size) {
        sent += chunk.length;
        if (!socket.write(chunk)) return;
      }
    };
    socket.on('drain', pump);
    pump();
    while (release === undefined) await new Promise((resolve) => setImmediate(resolve));
    // Until nothing moves any more: what the kernel and each of the streams on the way hold.
    let before = -1;
    while (before !== socket.bytesWritten - socket.writableLength) {
      before = socket.bytesWritten - socket.writableLength;
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
    assert.ok(before < size / 2, `${before} bytes went before anybody read`);
    release();
    const [answer] = await once(socket, 'data');
    assert.equal(taken, size);
    const expected = createHash('sha256').update(Buffer.alloc(size, 7)).digest('hex');
    assert.ok(String(answer).includes(expected));
    socket.destroy();
  });

  it('is sent the body of a client that waits to be told to, whatever its path', async () => {
    await world.serve(async (request, response) => {
      response.end(`got ${(await request.toArray()).join('')}`);
    });
    const socket = world.connect();
    const path = '/v1/sandboxes/sbx_1/files/content';
    socket.write(`PUT ${path} HTTP/1.1\r\nHost: ${host}\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n`);
    assert.match(String((await once(socket, 'data'))[0]), /^HTTP\/1\.1 100 /);
    socket.write('body');
    assert.match(String((await once(socket, 'data'))[0]), /got body/);
    socket.destroy();
  });

  it('speaks over a WebSocket, each end by itself', async () => {
    const app = await world.serve(echo);
    app.on('upgrade', (request, socket: Socket) => {
      socket.write('HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n');
      socket.write(
        `X-Seen: ${request.headers['sec-websocket-key']}\r\nSet-Cookie: a=1; Domain=localhost\r\n\r\nhello `,
      );
      socket.pipe(socket);
    });
    const socket = world.connect();
    socket.write(`GET /ws HTTP/1.1\r\nHost: ${host}\r\n${SWITCH}\r\nearly `);
    socket.end('and late');
    let text = '';
    for await (const part of socket) text += part;
    assert.match(text, /^HTTP\/1\.1 101 /);
    assert.match(text, /X-Seen: dGhlIHNhbXBsZSBub25jZQ==\r\nSet-Cookie: a=1\r\n/);
    assert.ok(text.endsWith('\r\n\r\nhello early and late'), text);
  });

  it('may refuse a WebSocket', async () => {
    await world.serve((_, response) => response.writeHead(426).end('not here'));
    const text = await raw(`GET /ws HTTP/1.1\r\nHost: ${host}\r\n${SWITCH}\r\n`);
    assert.match(text, /^HTTP\/1\.1 426 /);
    assert.ok(text.includes('not here'));
  });
});

describe('a page of the preview itself', () => {
  let host: string;
  before(async () => {
    ({ host } = await world.open({ visibility: 'public' }));
  });

  it('says that nothing listens, on which port, and looks again', async () => {
    world.agent.ports.unmap(APP_PORT);
    const page = await world.ask(host, { headers: { accept: 'text/html' } });
    assert.equal(page.status, 502);
    assert.match(page.text, /port 8000/);
    assert.match(page.text, /http-equiv="refresh"/);
    assert.equal(page.headers['retry-after'], '2');
    assert.equal(page.headers['cache-control'], 'no-store');
    assert.match(String(page.headers['content-security-policy']), /default-src 'none'/);
    const json = await world.ask(host, { headers: { accept: 'application/json' }, method: 'POST', body: 'x' });
    assert.deepEqual([json.status, JSON.parse(json.text).error.code], [502, 'preview_port_closed']);
    assert.equal(JSON.parse(json.text).error.requestId, json.headers['x-request-id']);
  });

  it('says that what listens speaks no HTTP', async () => {
    const code = async (port: number) => {
      const preview = await world.open({ visibility: 'public', port });
      const answer = await world.ask(preview.host, { headers: { accept: 'application/json' } });
      return [answer.status, JSON.parse(answer.text).error.code];
    };
    const nonsense = ['SSH-2.0-OpenSSH_9.2\r\n', '', 'HTTP/1.1 99 Low\r\n\r\n', 'HTTP/1.1 999 High\r\n\r\n'];
    nonsense.push(
      `HTTP/1.1 200 OK\r\nX: ${'a'.repeat(64_000)}\r\n\r\n`,
      'HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n',
    );
    nonsense.push('HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n');
    for (const [index, bytes] of nonsense.entries()) {
      await serveBytes(bytes, 9000 + index);
      assert.deepEqual(await code(9000 + index), [502, 'preview_no_http'], JSON.stringify(bytes.slice(0, 40)));
    }
  });

  it('cuts an answer that its app cuts', async () => {
    await serveBytes('HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf', 9100);
    const preview = await world.open({ visibility: 'public', port: 9100 });
    await assert.rejects(world.ask(preview.host), /aborted/);
  });

  it('shows what others wrote as text', async () => {
    const answer = await world.ask('prv-%22%3e%3cscript%3e.localhost');
    assert.ok(!answer.text.includes('<script>'));
  });

  it('refuses a request that names no path', async () => {
    const text = await raw(`GET http://${host}/ HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n\r\n`);
    assert.match(text, /^HTTP\/1\.1 400 /);
  });
});

describe('connections through a preview', () => {
  const open = async (host: string) => {
    const socket = world.connect();
    socket.write(`GET /ws HTTP/1.1\r\nHost: ${host}\r\n${SWITCH}\r\n`);
    const [head] = await once(socket, 'data');
    return { socket, head: String(head) };
  };
  before(async () => {
    const app = await world.serve(echo);
    app.on('upgrade', (_, socket: Socket) => {
      socket.on('error', () => undefined);
      socket.write('HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n');
    });
  });

  it('end when it is deleted, when its time is up, and when its sandbox ends', async () => {
    const deleted = await world.open({ visibility: 'public' });
    const one = await open(deleted.host);
    assert.match(one.head, /^HTTP\/1\.1 101 /);
    const brief = await world.open({ visibility: 'public', ttlMs: 300 });
    const two = await open(brief.host);
    assert.match(two.head, /^HTTP\/1\.1 101 /);
    const closes = [one, two].map(({ socket }) => once(socket.resume(), 'close'));
    await world.call('DELETE', `/v1/previews/${deleted.id}`);
    await Promise.all(closes);
    assert.equal((await world.ask(brief.host)).status, 404);

    const other = await openPreviewWorld();
    const app = await other.serve(echo);
    app.on('upgrade', (_, socket: Socket) =>
      socket.on('error', () => undefined).write('HTTP/1.1 101 S\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n'),
    );
    const { host } = await other.open({ visibility: 'public' });
    const socket = other.connect();
    socket.write(`GET /ws HTTP/1.1\r\nHost: ${host}\r\n${SWITCH}\r\n`);
    await once(socket, 'data');
    const closed = once(socket.resume(), 'close');
    await other.call('DELETE', `/v1/sandboxes/${other.sandboxId}`);
    await closed;
    await other.close();
  });

  it('are refused once its time is up, also to those who had one a moment before', async () => {
    const { host, expiresAt } = await world.open({ visibility: 'public', ttlMs: 500 });
    const seen: number[] = [];
    while (seen.at(-1) !== 404 && Date.now() < Date.parse(expiresAt) + 5_000) seen.push((await world.ask(host)).status);
    assert.deepEqual([...new Set(seen)], [200, 404]);
  });

  it('are bounded, and those whose client leaves make room, whether or not the app does', async () => {
    const { host, id } = await world.open({ visibility: 'public' });
    const all = await Promise.all(Array.from({ length: 256 }, () => open(host)));
    const refused = await world.ask(host, { headers: { accept: 'application/json' } });
    assert.deepEqual([refused.status, JSON.parse(refused.text).error.code], [503, 'preview_busy']);
    const metrics = await (await fetch(`${world.server.url}/metrics`)).text();
    assert.match(metrics, /^cloche_preview_connections 256$/m);
    all[0]?.socket.destroy();
    while ((await world.ask(host)).status !== 200);
    await world.call('DELETE', `/v1/previews/${id}`);
    for (const { socket } of all) socket.destroy();
  });
});
