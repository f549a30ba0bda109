import assert from 'node:assert/strict';
import { test } from 'node:test';
import { affordable, descriptorLimit, MOST } from './egress-shares.ts';

test('all that egress lets be open is below its limit of descriptors', () => {
  for (const limit of [1024, 20_000, 65_536]) {
    const part = affordable(limit);
    const relays = 2 * (MOST.lookups.total + 2 * MOST.lookupConnections.total);
    const open = (MOST.connections.total + MOST.serverConnections.total + relays) * part;
    assert.ok(open < limit, `${open} of ${limit}`);
  }
  assert.equal(affordable(65_536), 1);
});

test('the limit of descriptors is read from the process', () => {
  assert.ok(descriptorLimit() >= 1024);
});
