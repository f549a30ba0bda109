import assert from 'node:assert/strict';
import { test } from 'node:test';
import { affordableFraction, descriptorLimit, LIMITS } from './egress-shares.ts';

test('all that egress lets be open is below its limit of descriptors', () => {
  for (const limit of [1024, 20_000, 65_536]) {
    const part = affordableFraction(limit);
    const relays = 2 * (LIMITS.lookups.total + 2 * LIMITS.lookupConnections.total);
    const open = (LIMITS.connections.total + LIMITS.serverConnections.total + relays) * part;
    assert.ok(open < limit, `${open} of ${limit}`);
  }
  assert.equal(affordableFraction(65_536), 1);
});

test('the limit of descriptors is read from the process', () => {
  assert.ok(descriptorLimit() >= 1024);
});
