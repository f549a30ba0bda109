/** Apps that answer with arbitrary bytes and stop at any byte. Only their own request may fail. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type AddressInfo, createServer, type Server } from 'node:net';
import { after, before, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { fuzz, Random, speakHostilely, UnheardFaults } from '@cloche/testkit/fuzz';
import { longestTurn } from '@cloche/testkit/longest-turn';
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

/** Bytes that an app sends for a body, whatever its framing. */
const SENT_BYTES = 2 * 1024 * 1024;
const CLIENTS = 6;

/** Returns how long the longest turn was while several clients read what the app answers. */
async function readingAll(answer: Buffer): Promise<number> {
  const sends = createServer((socket) => {
    socket.on('error', () => undefined).once('data', () => socket.end(answer));
  });
  await once(sends.listen(0, '127.0.0.1'), 'listening');
  const port = 8002;
  world.agent.ports.map(port, (sends.address() as AddressInfo).port);
  const { host } = await world.open({ port, visibility: 'public' });
  const read = async () => {
    const socket = world.connect();
    socket.write(`GET / HTTP/1.1\r\nhost: ${host}\r\nconnection: close\r\n\r\n`);
    await once(socket.resume(), 'close');
  };
  try {
    return await longestTurn(() => Promise.all(Array.from({ length: CLIENTS }, read)));
  } finally {
    sends.close();
  }
}

test('an app that answers in chunks of one byte keeps others waiting hardly longer than one of large chunks', async () => {
  const head = 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n';
  const chunk = `${(64 * 1024).toString(16)}\r\n${'x'.repeat(64 * 1024)}\r\n`;
  const honest = Buffer.from(`${head}${chunk.repeat(SENT_BYTES / chunk.length)}0\r\n\r\n`);
  const hostile = Buffer.from(`${head}${'1\r\nx\r\n'.repeat(SENT_BYTES / 6)}0\r\n\r\n`);
  await readingAll(honest);

  const expected = await readingAll(honest);
  const attacked = await readingAll(hostile);

  assert.ok(attacked < 5 * expected, `${attacked} ms, ${expected} ms for large chunks`);
});

test('an app that sends interim answers without end is given up', async () => {
  const app = createServer((socket) => {
    const hints = 'HTTP/1.1 103 Early Hints\r\n\r\n'.repeat(1_000);
    const send = () => socket.write(hints, (error) => error ?? setImmediate(send));
    socket.on('error', () => undefined).once('data', send);
  });
  await once(app.listen(0, '127.0.0.1'), 'listening');
  const port = 8003;
  world.agent.ports.map(port, (app.address() as AddressInfo).port);
  const { host } = await world.open({ port, visibility: 'public' });
  assert.equal((await world.ask(host)).status, 502);
  app.close();
});
