import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { formatDuration, parseDuration } from './duration.ts';

describe('a duration', () => {
  it('is read with its units, and refused without', () => {
    assert.equal(parseDuration('500ms'), 500);
    assert.equal(parseDuration('1.5s'), 1500);
    assert.equal(parseDuration('1h30m'), 5_400_000);
    assert.equal(parseDuration('10min'), 600_000);
    for (const text of ['', '10', 's', '-1s', '1 h', '1y', '1e3s']) assert.equal(parseDuration(text), undefined, text);
  });

  it('is written with its largest unit and never rounded up', () => {
    assert.equal(formatDuration(3_599_999), '59 min');
    assert.equal(formatDuration(999), '999 ms');
    assert.equal(formatDuration(5_400_000), '1 h 30 min');
    assert.equal(formatDuration(86_400_000), '1 d');
    assert.equal(formatDuration(-5), '0 ms');
  });
});
