import assert from 'node:assert/strict';
import { test } from 'node:test';
import { sumOf, withoutRanges } from './used-ranges.ts';

test('what is not free is used, at the ends and in between', () => {
  const free = [
    { at: 10, length: 5 },
    { at: 15, length: 5 },
    { at: 40, length: 10 },
  ];
  assert.deepEqual(withoutRanges(60, free), [
    { at: 0, length: 10 },
    { at: 20, length: 20 },
    { at: 50, length: 10 },
  ]);
  assert.deepEqual(withoutRanges(50, free).at(-1), { at: 20, length: 20 });
  assert.deepEqual(withoutRanges(7, []), [{ at: 0, length: 7 }]);
  assert.equal(sumOf(withoutRanges(60, free)) + sumOf(free), 60);
});
