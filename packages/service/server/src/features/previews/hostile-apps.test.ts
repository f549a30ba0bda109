/** Apps that answer with arbitrary bytes and stop at any byte. Only their own request may fail. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type AddressInfo, createServer, type Server } from 'node:net';
import { after, before, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { fuzz, Random, speakHostilely, UnheardFaults } from '@cloche/testkit/fuzz';
import { longestTurn } from '@cloche/testkit/longest-turn';
import { openPreviewWorld, type PreviewWorld } from '../../../testing/previews.ts';

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
const SENT_BYTES = 512 * 1024;
const CLIENTS = 6;
/** As many times as long others may wait for hostile traffic as for honest traffic. */
const MOST_TIMES = 5;

const CHUNKED = 'Transfer-Encoding: chunked\r\n\r\n';
const LARGE_CHUNK = `${(64 * 1024).toString(16)}\r\n${'x'.repeat(64 * 1024)}\r\n`;
const LARGE_CHUNKS = `${CHUNKED}${LARGE_CHUNK.repeat(SENT_BYTES / LARGE_CHUNK.length)}0\r\n\r\n`;
const TINY_CHUNKS = `${CHUNKED}${'1\r\nx\r\n'.repeat(SENT_BYTES / 6)}0\r\n\r\n`;

/** Returns how long the longest turn was while several clients send a request to an app and read what it answers. */
async function exchangingAll(fieldsAndBody: string, answer: string): Promise<number> {
  const sends = createServer((socket) => {
    let end = '';
    socket
      .on('error', () => undefined)
      .on('data', (chunk) => {
        end = (end + chunk.toString('latin1', Math.max(0, chunk.length - 8))).slice(-8);
        if (end.endsWith('\r\n\r\n')) socket.end(answer);
      });
  });
  await once(sends.listen(0, '127.0.0.1'), 'listening');
  const port = 8002;
  world.agent.ports.map(port, (sends.address() as AddressInfo).port);
  const { host } = await world.open({ port, visibility: 'public' });
  const read = async () => {
    const socket = world.connect();
    socket.write(`POST / HTTP/1.1\r\nhost: ${host}\r\nconnection: close\r\n${fieldsAndBody}`);
    await once(socket.resume(), 'close');
  };
  try {
    return await longestTurn(() => Promise.all(Array.from({ length: CLIENTS }, read)));
  } finally {
    sends.close();
  }
}

test('an app that answers in chunks of one byte is read within a budget', async () => {
  const get = 'content-length: 0\r\n\r\n';
  const answerIn = (chunks: string) => `HTTP/1.1 200 OK\r\n${chunks}`;
  await exchangingAll(get, answerIn(LARGE_CHUNKS));

  const expected = await exchangingAll(get, answerIn(LARGE_CHUNKS));
  const attacked = await exchangingAll(get, answerIn(TINY_CHUNKS));

  assert.ok(attacked < MOST_TIMES * expected, `${attacked} ms, ${expected} ms for large chunks`);
});

test('a client that sends chunks of one byte is read within a budget', async () => {
  const answer = 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok';
  await exchangingAll(LARGE_CHUNKS, answer);

  const expected = await exchangingAll(LARGE_CHUNKS, answer);
  const attacked = await exchangingAll(TINY_CHUNKS, answer);

  assert.ok(attacked < MOST_TIMES * expected, `${attacked} ms, ${expected} ms for large chunks`);
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
