import assert from 'node:assert/strict';
import { describe, type TestContext, test } from 'node:test';
import { RefillPacing } from './refill-pacing.ts';

/** Returns a pacing and a function that sets its time. */
function pacingAt(t: TestContext) {
  let now = 1000;
  t.mock.method(performance, 'now', () => now);
  const pacing = new RefillPacing();
  return { pacing, setTime: (time: number) => (now = time) };
}

describe('launches ahead', () => {
  test('a refill waits for a quiet moment after each claim, and not longer than 250 ms', (t) => {
    const { pacing, setTime } = pacingAt(t);
    assert.equal(pacing.quietMs(), 0);
    pacing.noteClaim();
    assert.equal(pacing.quietMs(), 25);
    setTime(1240);
    pacing.noteClaim();
    assert.equal(pacing.quietMs(), 10);
    setTime(1250);
    assert.equal(pacing.quietMs(), 0);
  });

  test('a refill waits for 250 ms after a claim of a sandbox that computes at once, whatever else is claimed', (t) => {
    const { pacing, setTime } = pacingAt(t);
    pacing.noteBusyClaim();
    pacing.noteClaim();
    assert.equal(pacing.quietMs(), 250);
    setTime(1200);
    pacing.noteBusyClaim();
    pacing.noteClaim();
    assert.equal(pacing.quietMs(), 50);
    pacing.noteLaunchAhead();
    assert.equal(pacing.quietMs(), 0);
  });
});
