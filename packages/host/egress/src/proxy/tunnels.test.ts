import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { readdirSync } from 'node:fs';
import type { Server } from 'node:http';
import { createServer as createHttp2Server } from 'node:http2';
import { createServer, type Socket, type Server as TcpServer } from 'node:net';
import { after, before, beforeEach, describe, test } from 'node:test';
import { connect as tlsConnect } from 'node:tls';
import { eventually } from '@cloche/testkit/eventually';
import { EgressRig } from '../../testing/egress-rig.ts';
import { getRequest } from '../../testing/get-request.ts';
import { httpServer, httpsServer, listening, portOf } from '../../testing/test-servers.ts';

const ALLOWLIST = { mode: 'allowlist' as const, hosts: ['allowed.example'] };
const DENYLIST = { mode: 'denylist' as const, hosts: ['denied.example', '127.0.0.3'] };

let rig: EgressRig;
let web: Server;
let secureWeb: Server;
let echo: TcpServer;
let greeter: TcpServer;
let asked: string[] = [];

before(async () => {
  rig = await EgressRig.open(ALLOWLIST);
  rig.name('allowed.example', 'denied.example', 'other.example');
  web = await httpServer((_request, response) => response.end('plain'));
  web.on('upgrade', (request, socket: Socket) => {
    asked = request.rawHeaders;
    if (request.url === '/no') return socket.end('HTTP/1.1 426 Upgrade Required\r\nContent-Length: 2\r\n\r\nno');
    const accept = createHash('sha1').update(`${request.headers['sec-websocket-key']}x`).digest('base64');
    socket.write(
      `HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nContent-Length: 5\r\nX-Accept: ${accept}\r\n\r\n`,
    );
    socket.pipe(socket);
  });
  secureWeb = await httpsServer(rig.serverAuthority, 'allowed.example', (_request, response) => response.end('secure'));
  echo = await listening(createServer((socket) => void socket.on('error', () => {}).pipe(socket)));
  greeter = await listening(
    createServer({ allowHalfOpen: true }, (socket) => {
      socket.on('error', () => {}).write('220 hello\r\n');
      socket.on('data', (data) => socket.write(`heard ${data}`)).on('end', () => socket.end());
    }),
  );
});
beforeEach(() => {
  rig.setPolicy(ALLOWLIST);
  to(web);
});
after(async () => {
  await rig[Symbol.asyncDispose]();
  for (const server of [web, secureWeb, echo, greeter]) server.close();
});

function to(server: TcpServer, address = '127.0.0.1'): void {
  rig.destination = { address, port: portOf(server) };
}

function upgrade(host: string, path = '/'): string {
  const fields = 'Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: abc\r\n';
  return `GET ${path} HTTP/1.1\r\nHost: ${host}\r\n${fields}\r\n`;
}

async function readUntil(socket: Socket, pattern: RegExp): Promise<string> {
  let received = '';
  while (!pattern.test(received)) received += (await once(socket, 'data'))[0];
  return received;
}

describe('a WebSocket', () => {
  test('a WebSocket to a permitted host goes both ways', async () => {
    const socket = rig.connect();
    socket.write(upgrade('allowed.example'));
    assert.match(await readUntil(socket, /\r\n\r\n/), /^HTTP\/1\.1 101 .*X-Accept/s);
    socket.write('frame');
    assert.equal(await readUntil(socket, /frame/), 'frame');
    rig.decisions.length = 0;
    socket.end();
    await rig.readAll(socket);
    assert.deepEqual(
      rig.decisions.map(({ protocol, status }) => [protocol, status]),
      [['websocket', 101]],
    );
  });

  test('a WebSocket has no length, neither in its request nor in its answer', async () => {
    const socket = rig.connect();
    socket.write(upgrade('allowed.example').replace('Upgrade: ', 'Content-Length: 0\r\nUpgrade: '));
    const answer = await readUntil(socket, /\r\n\r\n/);
    assert.match(answer, /^HTTP\/1\.1 101 .*X-Accept/s);
    assert.doesNotMatch(answer + asked.join(), /content-length/i);
    assert.match(asked.join(), /sec-websocket-key/i);
    socket.destroy();
  });

  test('a WebSocket with content is not upgraded: it is proxied as a plain request', async () => {
    const request = upgrade('allowed.example').replace('Upgrade\r\n', 'Upgrade, close\r\nContent-Length: 3\r\n');
    assert.match(await rig.send(`${request}abc`), /^HTTP\/1\.1 200 .*plain/s);
  });

  test('a WebSocket to another host is refused', async () => {
    assert.match(await rig.send(upgrade('other.example')), /^HTTP\/1\.1 403 .*egress_denied/s);
  });

  test('a WebSocket that the server does not want ends with its answer', async () => {
    assert.match(await rig.send(upgrade('allowed.example', '/no')), /^HTTP\/1\.1 426 .*no$/s);
  });

  test('a WebSocket is the only upgrade: another is proxied as a plain request', async () => {
    const request = upgrade('allowed.example')
      .replace('websocket', 'h2c')
      .replace('Connection: ', 'Connection: close, ');
    assert.match(await rig.send(request), /^HTTP\/1\.1 200 .*plain/s);
  });
});

describe('CONNECT', () => {
  const connectTo = (authority: string) => `CONNECT ${authority} HTTP/1.1\r\nHost: ${authority}\r\n\r\n`;

  test('CONNECT to a permitted host is a connection whose requests are decided again', async () => {
    const authority = `allowed.example:${portOf(web)}`;
    assert.match(
      await rig.send(connectTo(authority) + getRequest('allowed.example')),
      /200 Connection.*200 OK.*plain/s,
    );
    assert.match(await rig.send(connectTo(authority) + getRequest('other.example')), /200 Connection.*403 /s);
  });

  test('to another host, or to none, is refused', async () => {
    assert.match(await rig.send(connectTo('other.example:443')), /^HTTP\/1\.1 403/);
    for (const authority of ['allowed.example', 'allowed.example:0', '[::1]:443', 'http://allowed.example:80']) {
      assert.match(
        await rig.send(`CONNECT ${authority} HTTP/1.1\r\nHost: allowed.example\r\n\r\n`),
        /^HTTP\/1\.1 400/,
        authority,
      );
    }
  });

  test('CONNECT leads to TLS, whose server name is decided', async () => {
    for (const [name, expected] of [
      ['allowed.example', /200 OK.*secure/s],
      ['other.example', /403 /],
    ] as const) {
      const socket = rig.connect();
      socket.write(connectTo(`allowed.example:${portOf(secureWeb)}`));
      await readUntil(socket, /\r\n\r\n/);
      const secured = tlsConnect({ socket, servername: name, ca: rig.egress.authorityCertificate }).on(
        'error',
        () => {},
      );
      await once(secured, 'secureConnect');
      assert.match(await rig.send(getRequest(name), secured), expected);
    }
  });

  test('CONNECT leads to nothing else under an allowlist, and to no further CONNECT', async () => {
    const authority = `allowed.example:${portOf(echo)}`;
    assert.match(await rig.send(`${connectTo(authority)}SSH-2.0-x\r\n`), /^HTTP\/1\.1 200 [^\n]*\r\n\r\n$/);
    const twice = connectTo(`allowed.example:${portOf(web)}`);
    assert.match(await rig.send(twice + twice), /200 Connection.*400 .*connect_in_connect/s);
  });

  test('inside TLS leads where it does outside', async () => {
    to(secureWeb);
    const authority = `allowed.example:${portOf(secureWeb)}`;
    const open = async () => {
      const socket = await rig.connectTls({ servername: 'allowed.example' });
      socket.write(connectTo(authority));
      assert.match(await readUntil(socket, /\r\n\r\n/), /^HTTP\/1\.1 200/);
      return socket;
    };
    assert.equal(await rig.send('SSH-2.0-x\r\n', await open()), '');
    const socket = await open();
    const secured = tlsConnect({ socket, servername: 'allowed.example', ca: rig.egress.authorityCertificate });
    await once(
      secured.on('error', () => {}),
      'secureConnect',
    );
    assert.match(await rig.send(getRequest('allowed.example'), secured), /200 OK.*secure/s);
  });

  test('under a denylist carries anything, to hosts that it does not name', async () => {
    rig.setPolicy(DENYLIST);
    const socket = rig.connect();
    socket.write(`${connectTo(`allowed.example:${portOf(echo)}`)}SSH-2.0-x\r\n`);
    assert.match(await readUntil(socket, /SSH-2.0-x/), /^HTTP\/1\.1 200/);
    socket.destroy();
    assert.match(await rig.send(connectTo(`denied.example:${portOf(echo)}`)), /^HTTP\/1\.1 403/);
  });
});

describe('an upgrade or CONNECT behind an unanswered request', () => {
  const leaving: [name: string, bytes: string][] = [
    ['a permitted upgrade', upgrade('allowed.example')],
    ['a denied upgrade', upgrade('denied.example')],
    ['a permitted CONNECT', 'CONNECT allowed.example:80 HTTP/1.1\r\nHost: allowed.example\r\n\r\n'],
    ['a denied CONNECT', 'CONNECT denied.example:443 HTTP/1.1\r\nHost: denied.example\r\n\r\n'],
    ['a malformed CONNECT', 'CONNECT x HTTP/1.1\r\nHost: x\r\n\r\n'],
  ];
  const pending = 'GET / HTTP/1.1\r\nHost: allowed.example\r\n\r\n';

  for (const [name, bytes] of leaving) {
    test(`an upgrade or CONNECT behind an unanswered request ends its connection alone: ${name}`, async () => {
      const neighbour = rig.connect();
      assert.equal(await rig.send(pending + bytes), '');
      to(secureWeb);
      const secured = await rig.connectTls({ servername: 'allowed.example' });
      assert.equal(await rig.send(pending + bytes, secured), '');
      to(web);
      assert.match(await rig.send(getRequest('allowed.example'), neighbour), /200 OK.*plain/s);
      assert.deepEqual(rig.failures, []);
    });
  }

  test('an upgrade or CONNECT behind an unanswered request is served once that request was answered', async () => {
    const socket = rig.connect();
    socket.write(pending);
    await readUntil(socket, /plain/);
    socket.write(upgrade('allowed.example'));
    assert.match(await readUntil(socket, /X-Accept/), /^HTTP\/1\.1 101 /);
    socket.destroy();
  });
});

describe('a refused upgrade or CONNECT', () => {
  test('a refused upgrade or CONNECT gives its connection back although the client sends a byte and closes only its own side', async () => {
    const openSockets = () => readdirSync('/proc/self/fd').length;
    const socketsBefore = openSockets();
    for (const bytes of [upgrade('denied.example'), 'CONNECT x HTTP/1.1\r\nHost: x\r\n\r\n']) {
      for (let count = 0; count < 20; count += 1) {
        const socket = rig.connect();
        socket.allowHalfOpen = true;
        socket.write(bytes);
        await once(socket.resume(), 'end');
        socket.end('x');
      }
    }
    await eventually(() => openSockets() <= socketsBefore, { because: 'the connections are given back' });
  });
});

describe('what is neither HTTP nor TLS', () => {
  beforeEach(() => rig.setPolicy(DENYLIST));

  test('what is neither HTTP nor TLS flows under a denylist, when the client speaks first', async () => {
    to(echo);
    const socket = rig.connect();
    socket.write('SSH-2.0-x\r\n');
    assert.equal(await readUntil(socket, /\n/), 'SSH-2.0-x\r\n');
    socket.write('more');
    assert.equal(await readUntil(socket, /more/), 'more');
    socket.end();
    await rig.readAll(socket);
  });

  test('what is neither HTTP nor TLS flows when the server speaks first, and each side may end its half', async () => {
    to(greeter);
    const socket = rig.connect();
    assert.equal(await readUntil(socket, /\n/), '220 hello\r\n');
    socket.end('HELO\r\n');
    assert.equal(await rig.readAll(socket), 'heard HELO\r\n');
  });

  test('what is neither HTTP nor TLS is not what a server of HTTP/2 says first', async () => {
    const clear = createHttp2Server().listen(0, '127.0.0.1');
    await once(clear, 'listening');
    to(clear);
    assert.equal(await rig.readAll(rig.connect()), '');
    clear.close();
  });

  test('what is neither HTTP nor TLS is reset at a closed address, and at one that the denylist names', async () => {
    for (const address of ['127.0.0.2', '10.0.0.1', '127.0.9.7', '127.0.0.3']) {
      to(echo, address);
      assert.equal(await rig.send('SSH-2.0-x\r\n'), '', address);
    }
  });

  test('what is neither HTTP nor TLS is not what HTTP becomes by starting late', async () => {
    const socket = rig.connect();
    await new Promise((resolve) => setTimeout(resolve, 500));
    socket.write('GET / HTTP/1.1\r\nHost: denied.example\r\n\r\n');
    assert.match(await rig.readAll(socket), /^HTTP\/1\.1 403/);
  });

  test('what is neither HTTP nor TLS is not what HTTP becomes by coming in pieces', async () => {
    const socket = rig.connect();
    const closed = rig.readAll(socket);
    for (const piece of ['\r\n', 'G', 'ET / HT', 'TP/1.1\r\nHost: den', 'ied.example\r\n\r\n']) {
      socket.write(piece);
      await new Promise((resolve) => setTimeout(resolve, 30));
    }
    assert.match(await closed, /^HTTP\/1\.1 403/);
  });
});

test('deny-all refuses every connection', async () => {
  rig.setPolicy({ mode: 'deny-all' });
  assert.equal(await rig.send('GET / HTTP/1.1\r\nHost: allowed.example\r\n\r\n'), '');
  assert.equal(await rig.readAll(rig.connect()), '');
});
