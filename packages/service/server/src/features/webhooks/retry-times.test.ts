import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { FAILING_MAX_MS, nextAttempt, retryDelay } from './retry-times.ts';

const MINUTE_MS = 60_000;
const HOUR_MS = 3_600_000;

describe('the times of retries', () => {
  it('the times of retries are 5 s, 30 s, every minute for an hour, and then ever longer', () => {
    const delays = Array.from({ length: 70 }, (_, index) => retryDelay(index + 1, 0));
    assert.deepEqual(delays, [
      5_000,
      30_000,
      ...Array.from({ length: 60 }, () => MINUTE_MS),
      5 * MINUTE_MS,
      30 * MINUTE_MS,
      ...[2, 5, 10, 24, 24, 24].map((hours) => hours * HOUR_MS),
    ]);
  });

  it('the times of retries are spread once they are long', () => {
    assert.equal(retryDelay(62, 1), MINUTE_MS);
    assert.equal(retryDelay(63, 1), 5.5 * MINUTE_MS);
  });

  it('the times of retries end five days after the first failure, with an attempt at that time', () => {
    assert.equal(nextAttempt({ failures: 71, since: 0 }, FAILING_MAX_MS - 1, 0), FAILING_MAX_MS);
    assert.equal(nextAttempt({ failures: 72, since: 0 }, FAILING_MAX_MS, 0), undefined);
  });
});
