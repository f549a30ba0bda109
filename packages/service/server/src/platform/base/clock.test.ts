import assert from 'node:assert/strict';
import { it } from 'node:test';
import { isWithin } from './clock.ts';

it('a time in the future, as after a clock was set back, counts as long ago', () => {
  assert.deepEqual([isWithin(100, 0, 0), isWithin(100, 0, 99), isWithin(100, 0, 100)], [true, true, false]);
  assert.equal(isWithin(100, 1_000, 999), false);
});
