/** Apps that answer with arbitrary bytes and stop at any byte. Only their own request may fail. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type AddressInfo, createServer, type Server } from 'node:net';
import { after, before, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { fuzz, Random, speakHostilely, UnheardFaults } from '@cloche/testkit/fuzz';
import { openPreviewWorld, type PreviewWorld } from '../../testing/previews.ts';

const REQUESTS = 200;
const HOSTILE_PORT = 8001;
/** Longest time before the client disconnects, because an app may stop sending without closing the connection. */
const CLIENT_MS = 60;
const SWITCH = {
  connection: 'upgrade',
  upgrade: 'websocket',
  'sec-websocket-version': '13',
  'sec-websocket-key': 'eA==',
};

const answers = [
  'HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello',
  'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n',
  'HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n\x81\x05hello',
  'HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n',
  `HTTP/1.1 302 Found\r\nLocation: /\r\nSet-Cookie: a=b; Domain=example.com\r\n${'X-Long: y\r\n'.repeat(200)}\r\n`,
  'HTTP/1.0 200 OK\r\n\r\nuntil the end',
  'HTTP/1.1 200 O\x01K\r\nContent-Length: 5\r\n\r\nhello',
].map((text) => Buffer.from(text, 'latin1')) as [Buffer, ...Buffer[]];

let world: PreviewWorld;
let app: Server;
let random = new Random(1);
const faults = new UnheardFaults();

before(async () => {
  world = await openPreviewWorld();
  await world.serve((_request, response) => response.end('well'));
  app = createServer((socket) => speakHostilely(socket, new Random(random.below(2 ** 31)), answers));
  await once(app.listen(0, '127.0.0.1'), 'listening');
  world.agent.ports.map(HOSTILE_PORT, (app.address() as AddressInfo).port);
});
after(async () => {
  await world.close();
  app.close();
  faults[Symbol.dispose]();
});

test('whatever an app answers, its client gets an end of it and the next one its answer', async () => {
  const hostile = await world.open({ port: HOSTILE_PORT, visibility: 'public' });
  const well = await world.open({ visibility: 'public' });
  await fuzz(REQUESTS, async (given) => {
    random = given;
    const socket = world.connect();
    const fields = Object.entries(given.chance(0.3) ? SWITCH : {}).map(([name, value]) => `${name}: ${value}\r\n`);
    socket.write(`GET / HTTP/1.1\r\nhost: ${hostile.host}\r\n${fields.join('')}\r\n`);
    let text = '';
    socket.on('data', (chunk) => {
      text += chunk.toString('latin1');
    });
    await Promise.race([once(socket, 'close').catch(() => undefined), delay(given.below(CLIENT_MS))]);
    socket.destroy();
    // Whatever the app sends, the client receives a valid status line.
    if (text !== '') assert.match(text, /^HTTP\/1\.1 [1-5]\d\d /);
    assert.deepEqual(faults.take(), []);
  });
  assert.equal((await world.ask(well.host)).text, 'well');
});
