import assert from 'node:assert/strict';
import { it, mock } from 'node:test';
import { Absence } from './absence.ts';
import { ClocheError } from './cloche-error.ts';

const unreachable = new ClocheError('unreachable', 'nobody answers');

it('an absence is one of half a minute, however long the service had nothing to say before', async () => {
  let now = 0;
  const clock = mock.method(performance, 'now', () => now);
  try {
    const absence = new Absence(1);
    assert.ok(!(await absence.mayEnd(unreachable)), 'it never was there');
    absence.end();
    for (const since of [60_000, 200_000]) {
      now = since;
      assert.ok(await absence.mayEnd(new ClocheError('unavailable', 'it is stopping')), 'it is about to go away');
      now = since + 29_000;
      assert.ok(await absence.mayEnd(unreachable));
      assert.ok(!(await absence.mayEnd(new ClocheError('not_found', 'no such command'))), 'somebody answers');
      now = since + 31_000;
      assert.ok(!(await absence.mayEnd(unreachable)));
      absence.end();
    }
  } finally {
    clock.mock.restore();
  }
});

it('whoever wants no second attempt waits for no service', async () => {
  const absence = new Absence(0);
  absence.end();
  assert.ok(!(await absence.mayEnd(unreachable)));
});
