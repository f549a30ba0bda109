import assert from 'node:assert/strict';
import { test } from 'node:test';
import { MAX_SAMPLES, MeasurementSeries } from './measurement-series.ts';

const measurement = (at: number) => ({ at, cpu: at / 4, memoryBytes: 3, egressBytes: 2 ** 40 + at, ingressBytes: 0 });

test('a series keeps the newest measurements of an hour, in order, as they were', () => {
  const series = new MeasurementSeries();
  const added = Array.from({ length: MAX_SAMPLES + 25 }, (_, index) => measurement(index));
  for (const [index, one] of added.entries()) {
    series.add(one);
    const kept = series.since(0);
    assert.equal(kept.length, Math.min(index + 1, MAX_SAMPLES));
    assert.deepEqual(kept.at(-1), one);
  }
  assert.deepEqual(series.since(0), added.slice(25));
});

test('a series returns the measurements at or after a time, and absent values as absent', () => {
  const series = new MeasurementSeries();
  const whole = { ...measurement(3), diskBytes: 1, inodes: 2, processes: 4 };
  for (const one of [measurement(1), measurement(2), whole]) series.add(one);
  assert.deepEqual(series.since(2), [measurement(2), whole]);
  assert.deepEqual(series.since(4), []);
});
