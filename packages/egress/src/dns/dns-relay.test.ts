import assert from 'node:assert/strict';
import { createSocket, type Socket } from 'node:dgram';
import { once } from 'node:events';
import { type AddressInfo, connect, createServer } from 'node:net';
import { afterEach, beforeEach, describe, test } from 'node:test';
import { type DecodedPacket, decode, encode, streamDecode, streamEncode } from 'dns-packet';
import { pino } from 'pino';
import { TinyDnsServer } from '../testing/tiny-dns-server.ts';
import { DnsRelay, type DnsRelayOptions } from './dns-relay.ts';

const SERVFAIL = 2;
const log = pino({ level: 'silent' });
let resolver: TinyDnsServer;
let relay: DnsRelay;
const asking = new Set<Socket>();

beforeEach(async () => {
  resolver = await TinyDnsServer.open();
  relay = await openRelay();
});

afterEach(async () => {
  for (const socket of asking) socket.close();
  asking.clear();
  await relay.close();
  await resolver[Symbol.asyncDispose]();
});

function openRelay(changes: Partial<DnsRelayOptions> = {}): Promise<DnsRelay> {
  return DnsRelay.open({
    listen: { address: '127.0.0.1', port: 0 },
    upstream: { address: '127.0.0.1', port: resolver.port },
    sandboxCidr: '127.0.0.0/8',
    log,
    ...changes,
  });
}

describe('by datagram', () => {
  test('a question is passed on and its answer back', async () => {
    const answer = await askByDatagram(relay, 'example.com', 4711);
    assert.deepEqual([answer.id, answer.answers?.map(({ name }) => name)], [4711, ['example.com']]);
    assert.deepEqual(resolver.asked, ['example.com']);
  });

  test('many at once each get the answer to their own', async () => {
    const names = Array.from({ length: 100 }, (_, index) => `host${index}.example`);
    const answers = await Promise.all(names.map((name) => askByDatagram(relay, name, 1)));
    assert.deepEqual(
      answers.map(({ answers }) => answers?.[0]?.name),
      names,
    );
  });

  test('a resolver that says nothing is a server failure after the time limit', async () => {
    resolver.isSilent = true;
    const impatient = await openRelay({ answerTimeoutMs: 50 });
    const answer = await askByDatagram(impatient, 'example.com', 7);
    assert.deepEqual([answer.id, rcode(answer), answer.questions?.[0]?.name], [7, SERVFAIL, 'example.com']);
    await impatient.close();
  });

  test('a resolver that is not there is a server failure at once', async () => {
    const nowhere = await openRelay({ upstream: { address: '127.0.0.1', port: 1 } });
    assert.equal(rcode(await askByDatagram(nowhere, 'example.com', 7)), SERVFAIL);
    await nowhere.close();
  });

  test('who has too much under way gets a server failure at once, and others their answers', async () => {
    resolver.isSilent = true;
    const greedy = Array.from({ length: 200 }, (_, index) => askByDatagram(relay, `host${index}.example`, 1));
    const first = await Promise.race(greedy);
    assert.equal(rcode(first), SERVFAIL);
    resolver.isSilent = false;
    const other = await askByDatagram(relay, 'example.com', 2, '127.0.0.2');
    assert.equal(other.answers?.length, 1);
  });

  test('what is no question, or comes from elsewhere, is not answered and goes no further', async () => {
    const elsewhere = await openRelay({ sandboxCidr: '198.18.0.0/16' });
    await send(elsewhere, encode({ type: 'query', id: 1, questions: [{ type: 'A', name: 'elsewhere.example' }] }));
    await send(relay, Buffer.from('x'));
    await send(relay, encode({ type: 'response', id: 1, questions: [{ type: 'A', name: 'response.example' }] }));
    await askByDatagram(relay, 'example.com', 1);
    assert.deepEqual(resolver.asked, ['example.com']);
    await elsewhere.close();
  });

  test('bytes that only look like a question harm nothing', async () => {
    resolver.isSilent = true;
    const impatient = await openRelay({ answerTimeoutMs: 20 });
    await send(
      impatient,
      Buffer.concat([Buffer.from([0, 1, 1, 0, 255, 255, 0, 0, 0, 0, 0, 0]), Buffer.alloc(40, 0xc0)]),
    );
    assert.equal(rcode(await askByDatagram(impatient, 'example.com', 1)), SERVFAIL);
    await impatient.close();
  });
});

describe('by connection', () => {
  test('questions on one connection are answered in order', async () => {
    const socket = connect(relay.port, '127.0.0.1');
    for (const name of ['one.example', 'two.example']) {
      socket.write(streamEncode({ type: 'query', id: 5, questions: [{ type: 'A', name }] }));
      const [data] = await once(socket, 'data');
      assert.equal(streamDecode(data)?.answers?.[0]?.name, name);
    }
    socket.destroy();
  });

  test('a resolver that says nothing is a server failure after the time limit', async () => {
    resolver.isSilent = true;
    const impatient = await openRelay({ answerTimeoutMs: 50 });
    const socket = connect(impatient.port, '127.0.0.1');
    socket.write(streamEncode({ type: 'query', id: 5, questions: [{ type: 'A', name: 'example.com' }] }));
    const [data] = await once(socket, 'data');
    assert.equal(rcode(decode(data.subarray(2))), SERVFAIL);
    socket.destroy();
    await impatient.close();
  });

  test('one source has no more connections than its share', async () => {
    const sockets = Array.from({ length: 20 }, () => connect(relay.port, '127.0.0.1').on('error', () => {}));
    await Promise.race(sockets.map((socket) => once(socket.resume(), 'end')));
    for (const socket of sockets) socket.destroy();
  });

  test('a connection from elsewhere is closed', async () => {
    const elsewhere = await openRelay({ sandboxCidr: '198.18.0.0/16' });
    const socket = connect(elsewhere.port, '127.0.0.1').on('error', () => {});
    await once(socket.resume(), 'close');
    await elsewhere.close();
  });
});

async function askByDatagram(to: DnsRelay, name: string, id: number, from = '127.0.0.1'): Promise<DecodedPacket> {
  const socket = createSocket('udp4');
  asking.add(socket);
  socket.bind(0, from);
  await once(socket, 'listening');
  socket.send(encode({ type: 'query', id, questions: [{ type: 'A', name }] }), to.port, '127.0.0.1');
  const [answer] = await once(socket, 'message');
  return decode(answer);
}

async function send(to: DnsRelay, message: Buffer): Promise<void> {
  const socket = createSocket('udp4');
  const { promise, resolve } = Promise.withResolvers<void>();
  socket.send(message, to.port, '127.0.0.1', () => resolve());
  await promise;
  socket.close();
}

function rcode(answer: DecodedPacket): number {
  return (answer.flags ?? 0) & 0xf;
}

test('a port that is taken is told of, and nothing is kept of it', async () => {
  // One that is free for connections as well, which closed ones would keep it from for a minute.
  const holder = createServer().listen(0, '127.0.0.1');
  await once(holder, 'listening');
  const { port } = holder.address() as AddressInfo;
  holder.close();
  await once(holder, 'close');
  const datagrams = createSocket('udp4');
  datagrams.bind(port, '127.0.0.1');
  await once(datagrams, 'listening');
  const open = () => openRelay({ listen: { address: '127.0.0.1', port } });
  await assert.rejects(open(), { code: 'EADDRINUSE' });
  datagrams.close();
  await once(datagrams, 'close');
  await (await open()).close();
});
