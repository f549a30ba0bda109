import assert from 'node:assert/strict';
import { networkInterfaces } from 'node:os';
import { test } from 'node:test';
import { OwnAddresses, ownIpv4, ownIpv6 } from './own-addresses.ts';

test('the host’s own IPv4 addresses are those that the kernel holds for local', () => {
  const trie = `Main:
  +-- 0.0.0.0/0 3 0 5
     |-- 127.0.0.1
        /32 host LOCAL
     |-- 192.0.2.0
        /24 link UNICAST
     |-- 192.0.2.7
        /32 host LOCAL
     |-- 192.0.2.255
        /32 link BROADCAST
`;
  assert.deepEqual([...ownIpv4(trie)], ['127.0.0.1', '192.0.2.7']);
});

test('the host’s own IPv6 addresses are those of its links', () => {
  const list = `20010db8000000000000000000000007 02 40 00 80 eth0
00000000000000000000000000000001 01 80 10 80       lo
`;
  assert.deepEqual(ownIpv6(list), [
    '2001:0db8:0000:0000:0000:0000:0000:0007',
    '0000:0000:0000:0000:0000:0000:0000:0001',
  ]);
});

test('each address of this host is its own, in any notation, and no other one is', () => {
  const own = new OwnAddresses();
  const addresses = Object.values(networkInterfaces()).flatMap((all) => all ?? []);
  assert.ok(addresses.length > 0);
  for (const { address } of addresses) assert.ok(own.has(address), address);
  if (addresses.some(({ address }) => address === '::1')) assert.ok(own.has('0:0::1'));
  for (const other of ['192.0.2.77', '2001:db8::77', 'localhost', '']) assert.ok(!own.has(other), other);
});
