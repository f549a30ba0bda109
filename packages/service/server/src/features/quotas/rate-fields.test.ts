import assert from 'node:assert/strict';
import { it } from 'node:test';
import { withinMinute } from './rate-fields.ts';
import { Window } from './request-window.ts';

it('a limit of a minute makes a client wait at most 60 seconds, and at least one', () => {
  const window = new Window();
  window.add(100);
  // A request counts until the end of its second.
  assert.equal(window.roomAfter(100, 1) + 1 - 100, 61);
  assert.deepEqual([61, 60, 0.1, 0, -5, 5_000].map(withinMinute), [60, 60, 1, 1, 1, 60]);
});

it('requests that were counted before the clock was set back count no longer', () => {
  const window = new Window();
  window.add(5_000);
  assert.deepEqual([window.count(5_000), window.count(1_000)], [1, 0]);
});
