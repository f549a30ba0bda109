import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { closedToSandboxes } from './closed-addresses.ts';
import { permitsAddressOfName, permitsHost, permitsRaw, readPolicy } from './egress-policy.ts';
import { type Host, normalizeHost } from './host-name.ts';

const HOSTS = ['example.com', '*.wild.example', '203.0.113.9'];
const MATCHING = ['example.com', 'a.wild.example', 'a.b.wild.example', '203.0.113.9'];
const OTHERS = [
  'www.example.com',
  'example.co',
  'wild.example',
  'awild.example',
  'example.com.evil.example',
  '203.0.113.10',
];

function host(text: string): Host {
  const normalized = normalizeHost(text);
  assert.ok(normalized);
  return normalized;
}

describe('a policy', () => {
  test('a policy matches names exactly, suffixes without their apex, and addresses', () => {
    const [allowlist, denylist] = (['allowlist', 'denylist'] as const).map((mode) =>
      readPolicy({ mode, hosts: HOSTS }),
    );
    assert.ok(allowlist && denylist);
    for (const text of MATCHING)
      assert.ok(permitsHost(allowlist, host(text)) && !permitsHost(denylist, host(text)), text);
    for (const text of OTHERS)
      assert.ok(!permitsHost(allowlist, host(text)) && permitsHost(denylist, host(text)), text);
  });

  test('a policy that denies all permits nothing', () => {
    const policy = readPolicy({ mode: 'deny-all' });
    assert.ok(
      ![...MATCHING, ...OTHERS].some(
        (text) => permitsHost(policy, host(text)) || permitsRaw(policy, { host: host(text), port: 22 }),
      ),
    );
    assert.ok(!permitsAddressOfName(policy, '203.0.113.1'));
  });

  test('a policy lets other protocols through as a denylist alone, and not at the ports of HTTP and HTTPS', () => {
    const at = (text: string, port = 22) => ({ host: host(text), port });
    assert.ok(!permitsRaw(readPolicy({ mode: 'allowlist', hosts: HOSTS }), at('203.0.113.9')));
    assert.ok(permitsRaw(readPolicy({ mode: 'denylist', hosts: HOSTS }), at('203.0.113.1')));
    assert.ok(!permitsRaw(readPolicy({ mode: 'denylist', hosts: HOSTS }), at('203.0.113.9')));
    for (const port of [80, 443]) {
      assert.ok(!permitsRaw(readPolicy({ mode: 'denylist', hosts: HOSTS }), at('203.0.113.1', port)));
    }
  });

  test('a policy that cannot be read is ignored', () => {
    for (const wrong of ['Example.com', '10.0.0.0/8', '*', 'http://a', 'a.*']) {
      assert.throws(() => readPolicy({ mode: 'allowlist', hosts: [wrong] }), /host "/, wrong);
    }
  });
});

describe('a closed address', () => {
  const closed = (allowCidrs: string[] = [], own: string[] = [], denyCidrs: string[] = []) =>
    closedToSandboxes({
      ranges: { allowCidrs, denyCidrs },
      sandboxCidr: '198.18.0.0/16',
      isOwnAddress: (address) => own.includes(address),
    });

  test('a closed address is one that the operator closes, though the operator opens it as well', () => {
    const addresses = closed(['10.0.0.0/8'], [], ['10.1.0.0/16', '1.1.1.1/32']);
    assert.ok(!addresses.isClosed('10.2.0.1'));
    for (const address of ['10.1.0.1', '1.1.1.1']) assert.ok(addresses.isClosed(address), address);
  });

  test('a closed address is one of the ranges that the contract names', () => {
    const inside = [
      '0.0.0.0',
      '10.0.0.1',
      '100.64.0.1',
      '100.127.255.255',
      '127.0.0.1',
      '168.63.129.16',
      '192.0.0.192',
      '192.88.99.1',
      '169.254.169.254',
      '172.16.0.1',
      '172.31.255.255',
      '192.168.1.1',
      '198.18.0.1',
      '198.19.255.255',
      '224.0.0.1',
      '255.255.255.255',
    ];
    const outside = [
      '1.1.1.1',
      '9.255.255.255',
      '11.0.0.0',
      '100.63.0.1',
      '100.128.0.0',
      '172.15.0.1',
      '172.32.0.1',
      '192.0.2.1',
      '198.17.0.1',
      '198.20.0.1',
      '198.51.100.1',
      '203.0.113.1',
      '223.255.255.255',
    ];
    for (const address of inside) assert.ok(closed().isClosed(address), address);
    for (const address of outside) assert.ok(!closed().isClosed(address), address);
    assert.ok(closed().isClosed('::1') && closed().isClosed(''));
  });

  test('a closed address may be opened by the operator, but never the host’s own, nor another sandbox', () => {
    const some = closed(['10.1.0.0/16', '198.18.0.0/15', '192.0.2.0/24'], ['10.1.0.9', '192.0.2.7']);
    assert.ok(!some.isClosed('10.1.2.3') && some.isClosed('10.2.0.1'));
    for (const address of ['10.1.0.9', '192.0.2.7', '198.18.0.6']) assert.ok(some.isClosed(address), address);
    assert.ok(!some.isClosed('198.19.0.1'));
    assert.ok(closed(['2000::/3']).isClosed('2606:4700::1111'));
  });
});
