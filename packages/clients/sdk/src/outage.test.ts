import assert from 'node:assert/strict';
import { it, mock } from 'node:test';
import { ClocheError } from './cloche-error.ts';
import { Outage } from './outage.ts';

const unreachable = new ClocheError('unreachable', 'the service does not answer');

it('an outage lasts half a minute at most, counted from the first failure and not from the last answer', async () => {
  let now = 0;
  const clock = mock.method(performance, 'now', () => now);
  try {
    const outage = new Outage(1);
    assert.ok(!(await outage.shouldRetry(unreachable)), 'it never was there');
    outage.noteResponse();
    for (const since of [60_000, 200_000]) {
      now = since;
      assert.ok(await outage.shouldRetry(new ClocheError('unavailable', 'it is stopping')), 'it is about to go away');
      now = since + 29_000;
      assert.ok(await outage.shouldRetry(unreachable));
      assert.ok(!(await outage.shouldRetry(new ClocheError('not_found', 'no such command'))), 'the service answers');
      now = since + 31_000;
      assert.ok(!(await outage.shouldRetry(unreachable)));
      outage.noteResponse();
    }
  } finally {
    clock.mock.restore();
  }
});

it('a request without retries does not wait for the service', async () => {
  const outage = new Outage(0);
  outage.noteResponse();
  assert.ok(!(await outage.shouldRetry(unreachable)));
});
