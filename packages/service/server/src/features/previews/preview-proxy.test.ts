import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import type { Socket } from 'node:net';
import { after, before, describe, it } from 'node:test';
import { settled } from '@cloche/testkit/eventually';
import { echo, openPreviewWorld, type PreviewWorld, SWITCH } from '../../../testing/previews.ts';

let world: PreviewWorld;
before(async () => {
  world = await openPreviewWorld();
});
after(() => world.close());

/** Resolves when the socket has received `words`, in any number of pieces. */
async function heard(socket: Socket, words: string): Promise<void> {
  let text = '';
  while (!text.includes(words)) text += (await once(socket, 'data'))[0];
}

describe('what is previewed', () => {
  let host: string;
  before(async () => {
    ({ host } = await world.open({ visibility: 'public' }));
  });

  it('what is previewed gets a request as it was sent: method, path, its own fields, and the client’s address', async () => {
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

  it('what is previewed is forwarded unchanged: status, fields, and no body where the app sent none', async () => {
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

  it('what is previewed sets cookies of its own host alone, and never the one that opens the preview', async () => {
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

  it('what is previewed cannot set header fields that affect more than its own pages', async () => {
    const refused = {
      'Alt-Svc': 'h3=":443"',
      'Clear-Site-Data': '"*"',
      'Expect-CT': 'max-age=1',
      NEL: '{"report_to":"x","max_age":1,"include_subdomains":true}',
      'Origin-Agent-Cluster': '?0',
      'Proxy-Authenticate': 'Basic',
      'Public-Key-Pins': 'max-age=1; includeSubDomains',
      'Report-To': '{"group":"x","max_age":1,"include_subdomains":true}',
      'Strict-Transport-Security': 'max-age=1; includeSubDomains; preload',
    };
    const kept = {
      'Accept-CH': 'DPR',
      'Content-Security-Policy': "default-src 'self'",
      'Reporting-Endpoints': 'x="https://r.test"',
      'Service-Worker-Allowed': '/',
      'WWW-Authenticate': 'Basic',
    };
    await world.serve((_, response) => {
      for (const [name, value] of Object.entries({ ...refused, ...kept })) response.setHeader(name, value);
      response.end();
    });
    const { headers } = await world.ask(host);
    assert.equal(headers['origin-agent-cluster'], '?1');
    for (const [name, value] of Object.entries(kept)) assert.equal(headers[name.toLowerCase()], value, name);
    for (const name of Object.keys(refused)) {
      if (name !== 'Origin-Agent-Cluster') assert.equal(headers[name.toLowerCase()], undefined, name);
    }
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
    for (let count = 0; count < 5; count++) {
      await heard(socket, `data: ${count}\n`);
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

  it('what is previewed takes and gives large bodies no faster than the other side', async () => {
    const size = 64 * 2 ** 20;
    let taken = 0;
    const [arrived, released] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    await world.serve(async (request, response) => {
      arrived.resolve();
      await released.promise;
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
    await arrived.promise;
    // Wait until the buffers of the kernel and of each stream on the way are full.
    const before = await settled(() => socket.bytesWritten - socket.writableLength, { forMs: 50 });
    assert.ok(before < size / 2, `${before} bytes were sent before the client read any`);
    released.resolve();
    await heard(socket, createHash('sha256').update(Buffer.alloc(size, 7)).digest('hex'));
    assert.equal(taken, size);
    socket.destroy();
  });

  it('what is previewed answers Expect: 100-continue at once, at every path, and passes the body on', async () => {
    await world.serve(async (request, response) => {
      response.end(`got ${(await request.toArray()).join('')}`);
    });
    const socket = world.connect();
    const path = '/v1/sandboxes/sbx_1/files/content';
    socket.write(`PUT ${path} HTTP/1.1\r\nHost: ${host}\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n`);
    assert.match(String((await once(socket, 'data'))[0]), /^HTTP\/1\.1 100 /);
    socket.write('body');
    await heard(socket, 'got body');
    socket.destroy();
  });

  it('what is previewed speaks over a WebSocket, each end by itself', async () => {
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

  it('what is previewed may refuse a WebSocket', async () => {
    await world.serve((_, response) => response.writeHead(426).end('not here'));
    const text = await world.raw(`GET /ws HTTP/1.1\r\nHost: ${host}\r\n${SWITCH}\r\n`);
    assert.match(text, /^HTTP\/1\.1 426 /);
    assert.ok(text.includes('not here'));
  });
});
