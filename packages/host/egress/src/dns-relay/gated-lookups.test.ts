import assert from 'node:assert/strict';
import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { connect } from 'node:net';
import { after, afterEach, before, describe, test } from 'node:test';
import { type DecodedPacket, decode, encode, type Question, streamEncode, TRUNCATED_RESPONSE } from 'dns-packet';
import { EgressRig, SANDBOX_ADDRESS } from '../../testing/egress-rig.ts';

const FORMERR = 1;
const NXDOMAIN = 3;
const REFUSED = 5;
const ALLOWLIST = { mode: 'allowlist' as const, hosts: ['allowed.example', '*.wild.example', '203.0.113.9'] };
const DENYLIST = { mode: 'denylist' as const, hosts: ['denied.example', '*.wild.example'] };

let rig: EgressRig;
before(async () => {
  rig = await EgressRig.open(ALLOWLIST);
});
afterEach(() => {
  rig.setPolicy(ALLOWLIST);
  rig.resolver.asked.length = 0;
  rig.resolver.addresses.clear();
});
after(() => rig[Symbol.asyncDispose]());

async function ask(
  name: string,
  type: Question['type'] = 'A',
  from = SANDBOX_ADDRESS,
  extra = {},
): Promise<DecodedPacket> {
  const socket = createSocket('udp4');
  socket.bind(0, from);
  await once(socket, 'listening');
  socket.send(
    encode({ type: 'query', id: 77, questions: [{ type, name }], ...extra }),
    rig.egress.dnsPort,
    '127.0.0.1',
  );
  const [answer] = await once(socket, 'message');
  socket.close();
  return decode(answer);
}

function rcode({ flags = 0 }: DecodedPacket): number {
  return flags & 0xf;
}

function data({ answers = [] }: DecodedPacket): unknown[] {
  return answers.map((answer) => ('data' in answer ? answer.data : undefined));
}

describe('a name', () => {
  test('a name that an allowlist names is looked up, in lower case', async () => {
    const answer = await ask('ALLOWED.example');
    assert.deepEqual([answer.id, answer.questions?.[0]?.name, data(answer)], [77, 'ALLOWED.example', ['203.0.113.7']]);
    await ask('a.wild.example');
    assert.deepEqual(rig.resolver.asked, ['allowed.example', 'a.wild.example']);
  });

  test('a name that the policy closes is unknown at once, and asked nowhere', async () => {
    for (const name of [
      'other.example',
      'wild.example',
      'c2VjcmV0.evil.example',
      'x.allowed.example',
      '203.0.113.9',
      'a_b%.example',
      '.',
    ]) {
      assert.equal(rcode(await ask(name)), NXDOMAIN, name);
    }
    rig.setPolicy(DENYLIST);
    for (const name of ['denied.example', 'DENIED.example', 'a.wild.example'])
      assert.equal(rcode(await ask(name)), NXDOMAIN, name);
    rig.setPolicy({ mode: 'deny-all' });
    assert.equal(rcode(await ask('allowed.example')), NXDOMAIN);
    assert.deepEqual(rig.resolver.asked, []);
  });

  test('a name has no IPv6 address, and no other records under an allowlist', async () => {
    for (const type of ['AAAA', 'TXT', 'HTTPS', 'MX', 'ANY'] as Question['type'][]) {
      const answer = await ask('allowed.example', type);
      assert.deepEqual([rcode(answer), data(answer)], [0, []], type);
    }
    assert.deepEqual(rig.resolver.asked, []);
    rig.setPolicy(DENYLIST);
    await ask('allowed.example', 'TXT');
    await ask('allowed.example', 'AAAA');
    assert.deepEqual(rig.resolver.asked, ['allowed.example']);
  });

  test('a name is asked in a question of our own, with nothing that rides along', async () => {
    const rider = {
      type: 'OPT' as const,
      name: '.',
      udpPayloadSize: 1232,
      extendedRcode: 0,
      ednsVersion: 0,
      flags: 0,
      flag_do: false,
      options: [],
    };
    const answer = await ask('allowed.example', 'A', SANDBOX_ADDRESS, {
      additionals: [rider, { type: 'TXT', name: 'secret.example', data: ['x'] }],
    });
    assert.equal(rcode(answer), 0);
    const two = await ask('allowed.example', 'A', SANDBOX_ADDRESS, {
      questions: [
        { type: 'A', name: 'allowed.example' },
        { type: 'A', name: 'secret.example' },
      ],
    });
    assert.equal(rcode(two), FORMERR);
    assert.deepEqual(rig.resolver.asked, ['allowed.example']);
  });

  test('a name keeps its closed addresses to itself', async () => {
    rig.resolver.addresses.set('allowed.example', () => ['10.0.0.1', '203.0.113.1', '127.0.9.2']);
    assert.deepEqual(data(await ask('allowed.example')), ['203.0.113.1']);
  });

  test('a name with more addresses than a datagram holds is asked for again by connection', async () => {
    const many = Array.from({ length: 60 }, (_, index) => `203.0.113.${index}`);
    rig.resolver.addresses.set('allowed.example', () => many);
    const cut = await ask('allowed.example');
    assert.deepEqual([(cut.flags ?? 0) & TRUNCATED_RESPONSE, data(cut)], [TRUNCATED_RESPONSE, []]);
    const socket = connect({ port: rig.egress.dnsPort, host: '127.0.0.1', localAddress: SANDBOX_ADDRESS });
    socket.write(streamEncode({ type: 'query', id: 5, questions: [{ type: 'A', name: 'allowed.example' }] }));
    const [bytes] = await once(socket, 'data');
    assert.deepEqual(data(decode(bytes.subarray(2))), many);
    socket.destroy();
  });
});

test('an unknown sandbox is refused', async () => {
  assert.equal(rcode(await ask('allowed.example', 'A', '127.0.9.77')), REFUSED);
  assert.deepEqual(rig.resolver.asked, []);
});

test('bytes that only look like a question harm nothing', async () => {
  const socket = createSocket('udp4');
  socket.bind(0, SANDBOX_ADDRESS);
  await once(socket, 'listening');
  for (let length = 12; length < 60; length += 1) {
    socket.send(
      Buffer.concat([Buffer.from([0, 1, 1, 0, 0, 9]), Buffer.alloc(length, 0xc0)]),
      rig.egress.dnsPort,
      '127.0.0.1',
    );
  }
  assert.equal(rcode(await ask('allowed.example')), 0);
  socket.close();
});
