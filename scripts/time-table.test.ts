import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { timeTable } from './time-table.ts';

describe('the times of a test run', () => {
  it('the table of times of a test run names each stage in its order, and the five slowest files of all stages', () => {
    const unit = { name: 'unit', seconds: 90.04, busyShare: 0.934, files: { a: 4, b: 11.5, c: 0.2, d: 7 } };
    const e2e = { name: 'e2e', seconds: 310, busyShare: 1, files: { b: 100, e: 0.3 } };
    assert.deepEqual(timeTable([unit, e2e]).split('\n'), [
      'Stages:',
      '    90.0 s  unit, processors 93 % busy',
      '   310.0 s  e2e, processors 100 % busy',
      'Slowest files:',
      '   100.0 s  e2e: b',
      '    11.5 s  unit: b',
      '     7.0 s  unit: d',
      '     4.0 s  unit: a',
      '     0.3 s  e2e: e',
    ]);
  });

  it('the table of times of a test run names no files where no stage has any', () => {
    const lint = { name: 'lint', seconds: 5, busyShare: 0, files: {} };
    assert.equal(timeTable([lint]), 'Stages:\n     5.0 s  lint, processors 0 % busy');
  });
});
