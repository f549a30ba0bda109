import assert from 'node:assert/strict';
import { createSocket, type Socket } from 'node:dgram';
import { once } from 'node:events';
import { type AddressInfo, connect, createServer } from 'node:net';
import { afterEach, beforeEach, describe, test } from 'node:test';
import { eventually } from '@cloche/testkit/eventually';
import { type DecodedPacket, decode, encode, streamDecode, streamEncode } from 'dns-packet';
import { pino } from 'pino';
import { TinyDnsServer } from '../../testing/tiny-dns-server.ts';
import { lookupShares } from '../shares/egress-shares.ts';
import { FairShare } from '../shares/fair-share.ts';
import { DnsRelay, type DnsRelayDeps } from './dns-relay.ts';

const FORMERR = 1;
const SERVFAIL = 2;
const NOTIMP = 4;
const REFUSED = 5;
let lines: string[] = [];
let resolver: TinyDnsServer;
let relay: DnsRelay;
const asking = new Set<Socket>();

beforeEach(async () => {
  lines = [];
  resolver = await TinyDnsServer.open();
  relay = await openRelay();
});

afterEach(async () => {
  for (const socket of asking) socket.close();
  asking.clear();
  await relay.close();
  await resolver[Symbol.asyncDispose]();
});

function openRelay(changes: Partial<DnsRelayDeps> = {}): Promise<DnsRelay> {
  return DnsRelay.open({
    listen: { address: '127.0.0.1', port: 0 },
    upstream: { address: '127.0.0.1', port: resolver.port },
    sandboxCidr: '127.0.0.0/8',
    shares: lookupShares(),
    log: pino({}, { write: (line: string) => void lines.push(line) }),
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

  test('a question of which nothing is heard is asked again', async () => {
    resolver.isSilent = true;
    const answer = askByDatagram(relay, 'example.com', 7);
    await eventually(() => resolver.asked.length === 1, { because: 'the resolver is asked' });
    resolver.isSilent = false;
    assert.equal((await answer).answers?.length, 1);
  });

  test('a resolver that is not there is a server failure at once', async () => {
    const nowhere = await openRelay({ upstream: { address: '127.0.0.1', port: 1 } });
    assert.equal(rcode(await askByDatagram(nowhere, 'example.com', 7)), SERVFAIL);
    await nowhere.close();
  });

  test('a sandbox with too many open queries gets a server failure at once, and others get answers', async () => {
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

  test('sources that hold every place lose one to each source that holds none', async () => {
    resolver.isSilent = true;
    const shares = { ...lookupShares(), datagrams: new FairShare({ total: 8, perSource: 4 }) };
    const small = await openRelay({ shares });
    const greedy = ['127.0.0.2', '127.0.0.3'].flatMap((source) =>
      Array.from({ length: 4 }, (_, index) => askByDatagram(small, `host${index}.example`, 1, source)),
    );
    await eventually(() => resolver.asked.length >= 8, { because: 'the resolver is asked' });
    resolver.isSilent = false;
    assert.equal((await askByDatagram(small, 'example.com', 2, '127.0.0.4')).answers?.length, 1);
    assert.equal(rcode(await Promise.race(greedy)), SERVFAIL);
    await small.close();
  });

  test('several questions, other classes and zone transfers are refused without asking upstream', async () => {
    const question = { type: 'A' as const, name: 'example.com' };
    const query = encode({ type: 'query', id: 9, questions: [question] });
    const changed = (change: (bytes: Buffer) => void) => {
      const bytes = Buffer.from(query);
      change(bytes);
      return bytes;
    };
    const refused: [what: string, query: Buffer, rcode: number][] = [
      ['NOTIFY', changed((bytes) => bytes.writeUInt16BE(4 << 11, 2)), NOTIMP],
      ['UPDATE', changed((bytes) => bytes.writeUInt16BE(5 << 11, 2)), NOTIMP],
      ['AXFR', changed((bytes) => bytes.writeUInt16BE(252, bytes.length - 4)), REFUSED],
      ['IXFR', changed((bytes) => bytes.writeUInt16BE(251, bytes.length - 4)), REFUSED],
      ['class CHAOS', changed((bytes) => bytes.writeUInt16BE(3, bytes.length - 2)), REFUSED],
      ['two questions', encode({ type: 'query', id: 9, questions: [question, question] }), FORMERR],
      ['no question', encode({ type: 'query', id: 9, questions: [] }), FORMERR],
      ['an answer', changed((bytes) => bytes.writeUInt16BE(1, 6)), FORMERR],
      ['a name that is cut', query.subarray(0, 20), FORMERR],
      ['a name that is compressed', changed((bytes) => bytes.writeUInt16BE(0xc00c, 12)), FORMERR],
    ];
    for (const [what, message, expected] of refused) {
      const answer = await exchange(relay, message);
      assert.deepEqual([answer.id, rcode(answer)], [message.readUInt16BE(0), expected], what);
    }
    assert.deepEqual([resolver.asked, lines], [[], []]);
  });

  test('questions that fail write a few lines for each source, the rest is counted', async () => {
    const nowhere = await openRelay({ upstream: { address: '127.0.0.1', port: 1 } });
    for (let index = 0; index < 20; index += 1) await askByDatagram(nowhere, 'example.com', 7);
    await askByDatagram(nowhere, 'example.com', 7, '127.0.0.2');
    await nowhere.close();
    const sources = lines.map((line) => JSON.parse(line)).map(({ source, count = 1 }) => `${source} ${count}`);
    assert.deepEqual(sources, [...Array(5).fill('127.0.0.1 1'), '127.0.0.2 1', '127.0.0.1 15']);
    assert.ok(
      lines.every((line) => line.length < 400),
      lines.join(),
    );
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

  test('sources that hold every connection lose an idle one to each source that holds none', async () => {
    const shares = { ...lookupShares(), connections: new FairShare({ total: 4, perSource: 2 }) };
    const small = await openRelay({ shares });
    const open = (localAddress: string) =>
      connect({ port: small.port, host: '127.0.0.1', localAddress }).on('error', () => {});
    const idle = ['127.0.0.2', '127.0.0.3'].flatMap((source) => [open(source), open(source)]);
    let lost = 0;
    for (const socket of idle) socket.resume().on('close', () => void lost++);
    await eventually(() => shares.connections.total === 4, { because: 'every connection is taken' });
    const other = open('127.0.0.4');
    other.write(streamEncode({ type: 'query', id: 5, questions: [{ type: 'A', name: 'example.com' }] }));
    const [data] = await once(other, 'data');
    assert.equal(rcode(decode(data.subarray(2))), 0);
    // Well before an idle connection is closed for its age.
    await eventually(() => lost === 1, { within: 60_000, because: 'one idle connection is closed' });
    for (const socket of [...idle, other]) socket.destroy();
    await small.close();
  });

  test('a question that is too long ends its connection', async () => {
    const socket = connect(relay.port, '127.0.0.1').on('error', () => {});
    socket.write(Buffer.from([0x20, 0]));
    await once(socket.resume(), 'close');
  });

  test('a connection from elsewhere is closed', async () => {
    const elsewhere = await openRelay({ sandboxCidr: '198.18.0.0/16' });
    const socket = connect(elsewhere.port, '127.0.0.1').on('error', () => {});
    await once(socket.resume(), 'close');
    await elsewhere.close();
  });
});

function askByDatagram(to: DnsRelay, name: string, id: number, from = '127.0.0.1'): Promise<DecodedPacket> {
  return exchange(to, encode({ type: 'query', id, questions: [{ type: 'A', name }] }), from);
}

async function exchange(to: DnsRelay, query: Buffer, from = '127.0.0.1'): Promise<DecodedPacket> {
  const socket = createSocket('udp4');
  asking.add(socket);
  socket.bind(0, from);
  await once(socket, 'listening');
  socket.send(query, to.port, '127.0.0.1');
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

test('a port that is in use is reported, and nothing stays open', async () => {
  // A port that is free for TCP too. An accepted connection would keep it in use for a minute.
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
