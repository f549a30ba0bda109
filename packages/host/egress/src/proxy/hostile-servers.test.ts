/** Permitted servers that send arbitrary responses and disconnect at any byte. Only the one request may fail. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect as connectHttp2 } from 'node:http2';
import { createServer, type Server, type Socket } from 'node:net';
import { after, before, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { createServer as createTlsServer } from 'node:tls';
import { fuzz, Random, speakHostilely, UnheardFaults } from '@cloche/testkit/fuzz';
import { EgressRig } from '../../testing/egress-rig.ts';
import { listening, portOf } from '../../testing/test-servers.ts';

const REQUESTS = 150;
/** Time after which the client disconnects, because a server may stay silent after its response. */
const CLIENT_MS = 40;
const HOST = 'Host: allowed.example\r\n';
const SWITCH = 'Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: eA==\r\n';

const answers = [
  'HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello',
  'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n',
  'HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n\x81\x05hello',
  'HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n',
  `HTTP/1.1 302 Found\r\nLocation: /\r\nAlt-Svc: h3\r\n${'X-Long: y\r\n'.repeat(200)}\r\n`,
  'HTTP/1.0 200 OK\r\n\r\nuntil the end',
  'HTTP/1.1 200 O\x01K\r\nContent-Length: 5\r\n\r\nhello',
  'HTTP/1.1 099 Early\r\nContent-Length: 5\r\n\r\nhello',
  'HTTP/1.1 200 OK\r\nConnection: x\r\nTE: y\r\nKeep-Alive: z\r\nHTTP2-Settings: a\r\nContent-Length: 5\r\n\r\nhello',
].map((text) => Buffer.from(text, 'latin1')) as [Buffer, ...Buffer[]];

let rig: EgressRig;
let plain: Server;
let secure: Server;
let random = new Random(1);
const faults = new UnheardFaults();

before(async () => {
  rig = await EgressRig.open({ mode: 'allowlist', hosts: ['allowed.example'] });
  rig.name('allowed.example');
  const { certificate: cert, key } = await rig.serverAuthority.issue({ kind: 'name', name: 'allowed.example' });
  plain = await listening(createServer(answer));
  secure = await listening(createTlsServer({ cert, key }, answer).on('tlsClientError', () => undefined));
});
after(async () => {
  await rig[Symbol.asyncDispose]();
  for (const server of [plain, secure]) server.close();
  faults[Symbol.dispose]();
});

function answer(socket: Socket): void {
  speakHostilely(socket, new Random(random.below(2 ** 31)), answers);
}

test('a hostile server of HTTP/1.1, plain and in TLS', async () => {
  await fuzz(REQUESTS, async (given) => {
    random = given;
    const isSecure = given.chance(0.5);
    rig.destination = { address: '203.0.113.7', port: portOf(isSecure ? secure : plain) };
    const socket = isSecure ? await rig.connectTls({ servername: 'allowed.example' }) : rig.connect();
    socket.write(`GET / HTTP/1.1\r\n${HOST}${given.chance(0.3) ? SWITCH : ''}\r\n`);
    let text = '';
    socket.on('data', (chunk) => {
      text += chunk.toString('latin1');
    });
    await Promise.race([new Promise((resolve) => socket.once('close', resolve)), delay(given.below(CLIENT_MS))]);
    socket.destroy();
    if (text !== '') assert.match(text, /^HTTP\/1\.1 [1-5]\d\d /);
    assert.deepEqual([...faults.take(), ...rig.failures.splice(0)], []);
  });
});

test('a hostile server of HTTP/2', async () => {
  rig.destination = { address: '203.0.113.7', port: portOf(secure) };
  const socket = await rig.connectTls({ servername: 'allowed.example', ALPNProtocols: ['h2'] });
  const session = connectHttp2('https://allowed.example', { createConnection: () => socket });
  await fuzz(REQUESTS, async (given) => {
    random = given;
    const stream = session
      .request({ ':path': '/' })
      .on('error', () => undefined)
      .resume();
    await Promise.race([once(stream, 'close').catch(() => undefined), delay(given.below(CLIENT_MS))]);
    stream.close();
    assert.deepEqual([...faults.take(), ...rig.failures.splice(0)], []);
    assert.ok(!session.destroyed, 'streams beside it are ended as well');
  });
  session.destroy();
});
