import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { figuresOf } from './statistics.ts';

describe('figures', () => {
  it('figures are those of the sorted values, whatever their order was', () => {
    const values = Array.from({ length: 200 }, (_, index) => 200 - index);
    assert.deepEqual(figuresOf(values), { count: 200, min: 1, p50: 100, p95: 190, p99: 198, max: 200 });
  });

  it('figures of few values are values that were measured', () => {
    assert.deepEqual(figuresOf([3, 1]), { count: 2, min: 1, p50: 1, p95: 3, p99: 3, max: 3 });
  });
});
