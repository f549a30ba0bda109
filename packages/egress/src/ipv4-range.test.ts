import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isInRange } from './ipv4-range.ts';

test('an address is in the range of its prefix and in no other', () => {
  assert.ok(isInRange('198.18.255.254', '198.18.0.0/16'));
  assert.ok(!isInRange('198.19.0.1', '198.18.0.0/16'));
  assert.ok(isInRange('198.19.0.1', '198.18.0.0/15'));
  assert.ok(isInRange('10.0.0.1', '10.0.0.1/32') && !isInRange('10.0.0.2', '10.0.0.1'));
  assert.ok(isInRange('255.1.2.3', '0.0.0.0/0'));
});

test('what is no IPv4 address is in none', () => {
  for (const address of ['', '::1', '::ffff:198.18.0.1', '198.18.0'])
    assert.ok(!isInRange(address, '0.0.0.0/0'), address);
});
