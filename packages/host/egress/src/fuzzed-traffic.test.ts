/** Messages of a sandbox to egress, and of hostd: valid ones with arbitrary changes. */
import assert from 'node:assert/strict';
import { PassThrough } from 'node:stream';
import { describe, test } from 'node:test';
import { fuzz, mutateBytes, mutateJson, type Random } from '@cloche/testkit/fuzz';
import { encode } from 'dns-packet';
import { frame, readFrames } from './dns/dns-frames.ts';
import { answersQuery, failure, isQuery, refusalOf } from './dns/dns-messages.ts';
import { parseAuthority } from './policy/authority.ts';
import { permitsHost, readPolicy } from './policy/egress-policy.ts';
import { hostText, normalizeHost } from './policy/host-name.ts';
import { classify } from './proxy/sniffer.ts';

const QUERY = encode({ type: 'query', id: 7, flags: 256, questions: [{ type: 'A', name: 'a.example.com' }] });
const HOSTS = ['a.example.com', 'EXAMPLE.com.', '192.0.2.1', '0x7f.1', '017700000001', 'xn--bcher-kva.example', '*.a'];
const GREETINGS = ['GET / HTTP/1.1\r\nHost: a.example\r\n\r\n', 'PRI * HTTP/2.0\r\n\r\n', 'SSH-2.0-x\r\n'];
const HELLO = Buffer.from('160301004a010000460303', 'hex');

const pickHost = (random: Random) => HOSTS[random.below(HOSTS.length)] ?? '';

describe('whatever a sandbox asks by DNS', () => {
  test('whatever a sandbox asks by DNS is taken for a question or not, and answered with its own number', async () => {
    await fuzz(5000, (random) => {
      const query = mutateBytes(random, QUERY);
      if (!isQuery(query)) return;
      assert.ok(answersQuery(failure(query, refusalOf(query) ?? 'serverFailure'), query));
    });
  });

  test('whatever a sandbox asks by DNS comes out of its frames in order and whole, however it arrives', async () => {
    await fuzz(500, async (random) => {
      const sent = mutateBytes(random, Buffer.concat([frame(QUERY), frame(QUERY), frame(QUERY)]));
      const stream = new PassThrough();
      for (let at = 0; at < sent.length; ) {
        const end = at + 1 + random.below(sent.length);
        stream.write(sent.subarray(at, end));
        at = end;
      }
      stream.end();
      const found: Buffer[] = [];
      for await (const message of readFrames(stream as unknown as Parameters<typeof readFrames>[0])) {
        found.push(frame(message));
      }
      const whole = Buffer.concat(found);
      assert.ok(whole.equals(sent.subarray(0, whole.length)));
    });
  });
});

describe('whatever a sandbox connects with', () => {
  test('whatever a sandbox connects with is recognized by its first bytes, and more bytes do not change the decision', async () => {
    await fuzz(3000, (random) => {
      const [greeting = HELLO] = [random.pick([...GREETINGS.map((text) => Buffer.from(text)), HELLO] as [Buffer])];
      const bytes = mutateBytes(random, greeting);
      const cut = bytes.subarray(0, random.below(bytes.length + 1));
      const early = classify(cut);
      if (early !== undefined) assert.equal(classify(bytes), early);
      assert.notEqual(classify(Buffer.concat([bytes, Buffer.alloc(8192, 'x\n')])), undefined);
    });
  });

  test('whatever a sandbox connects with names a host in one form alone, which is the one that policies see', async () => {
    await fuzz(5000, (random) => {
      const text = mutateBytes(random, Buffer.from(pickHost(random))).toString('latin1');
      const host = normalizeHost(text);
      if (!host) return;
      assert.deepEqual(normalizeHost(hostText(host)), host);
      assert.match(hostText(host), /^[a-z0-9._-]*$/);
    });
  });

  test('whatever a sandbox connects with has one host and one port, or none that can be read', async () => {
    await fuzz(3000, (random) => {
      const authority = parseAuthority(mutateBytes(random, Buffer.from(`${pickHost(random)}:443`)).toString('latin1'));
      if (!authority) return;
      const { host, port } = authority;
      assert.deepEqual(parseAuthority(hostText(host) + (port === undefined ? '' : `:${port}`)), authority);
    });
  });
});

describe('whatever policy hostd names', () => {
  test('whatever policy hostd names is read as one, which decides every host, or refused', async () => {
    await fuzz(3000, (random) => {
      const policy = mutateJson(random, { mode: 'allowlist', hosts: ['a.example', '*.b.example', '192.0.2.1'] });
      let read: ReturnType<typeof readPolicy>;
      try {
        read = readPolicy(policy as Parameters<typeof readPolicy>[0]);
      } catch (error) {
        assert.ok(error instanceof Error);
        return;
      }
      const host = normalizeHost(pickHost(random));
      if (host) assert.equal(typeof permitsHost(read, host), 'boolean');
    });
  });
});
