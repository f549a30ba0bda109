import assert from 'node:assert/strict';
import { test } from 'node:test';
import { firstNameserver, parseUpstream } from './upstream.ts';

test('the address of a resolver may leave its port out', () => {
  assert.deepEqual(parseUpstream('192.0.2.1'), { address: '192.0.2.1', port: 53 });
  assert.deepEqual(parseUpstream('192.0.2.1:5353'), { address: '192.0.2.1', port: 5353 });
  assert.deepEqual(parseUpstream('2001:db8::1'), { address: '2001:db8::1', port: 53 });
  assert.deepEqual(parseUpstream('[2001:db8::1]:5353'), { address: '2001:db8::1', port: 5353 });
});

test('what is no address is refused', () => {
  for (const text of ['', 'dns.example', '192.0.2.1:0', '192.0.2.1:70000', '192.0.2', '[x]:53']) {
    assert.throws(() => parseUpstream(text), /is not the address of a resolver/, text);
  }
});

test('the first resolver that a file names is taken', () => {
  const file = '# nameserver 192.0.2.9\nsearch example\nnameserver  192.0.2.1\nnameserver 192.0.2.2\n';
  assert.deepEqual(firstNameserver(file), { address: '192.0.2.1', port: 53 });
  assert.equal(firstNameserver('search example\n'), undefined);
});
