import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { formatDuration, formatEnd, formatLeft, formatTime, parseDuration } from './duration.ts';

describe('a duration', () => {
  it('a duration is read with its units, and refused without', () => {
    assert.equal(parseDuration('500ms'), 500);
    assert.equal(parseDuration('1.5s'), 1500);
    assert.equal(parseDuration('1h30m'), 5_400_000);
    assert.equal(parseDuration('10min'), 600_000);
    for (const text of ['', '10', 's', '-1s', '1 h', '1y', '1e3s']) assert.equal(parseDuration(text), undefined, text);
  });

  it('a duration is written with its largest unit and never rounded up', () => {
    assert.equal(formatDuration(3_599_999), '59 min');
    assert.equal(formatDuration(999), '999 ms');
    assert.equal(formatDuration(5_400_000), '1 h 30 min');
    assert.equal(formatDuration(86_400_000), '1 d');
    assert.equal(formatDuration(-5), '0 ms');
  });
});

describe('the time that is left', () => {
  it('the time that is left is that of the nearest unit', () => {
    const now = Date.parse('2026-01-31T12:00:00Z');
    for (const [ms, text] of [
      [1_799_800, '30 min'],
      [1_769_000, '29 min'],
      [3_599_000, '1 h'],
      [59_700, '1 min'],
      [9_600, '10 s'],
      [400, '400 ms'],
      [-5, '0 ms'],
      [5_399_000, '1 h 30 min'],
      [86_399_000, '1 d'],
      [30 * 86_400_000 - 60_000, '30 d'],
    ] as const)
      assert.equal(formatLeft(new Date(now + ms).toISOString(), now), text, `${ms}`);
  });

  it('the time that is left is shown with the local time of the end, and its day unless that is today', () => {
    const now = new Date(2026, 0, 31, 12, 0, 0).getTime();
    assert.equal(formatEnd(new Date(now + 1_799_800).toISOString(), now), '30 min (12:29)');
    assert.equal(formatEnd(new Date(now + 86_400_000).toISOString(), now), '1 d (2026-02-01 12:00)');
    assert.equal(formatTime(new Date(2026, 0, 31, 3, 7, 5).toISOString(), now), '03:07:05');
  });
});
