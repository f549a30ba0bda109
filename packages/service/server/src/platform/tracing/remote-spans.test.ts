import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { parseTimings, Stopwatch } from '@cloche/protocol';
import { remoteSpans } from './remote-spans.ts';

const WAIT = { startMs: 1_000, endMs: 1_010 };

describe('the work that a part tells', () => {
  it('lies in the middle of the wait for it, with its steps', () => {
    const told = 'total;start=0;dur=6, claim;start=1;dur=2.5';
    assert.deepEqual(remoteSpans('host', told, WAIT), [
      { name: 'total', startMs: 1_002, endMs: 1_008 },
      { name: 'claim', startMs: 1_003, endMs: 1_005.5 },
    ]);
  });

  it('the work that a part tells never leaves the wait, whatever a hostile agent tells', () => {
    const told = 'total;start=0;dur=999999999, open;start=0;dur=999999999, execute;start=999999999;dur=1';
    for (const { startMs, endMs } of remoteSpans('agent', told, WAIT)) {
      assert.ok(startMs >= WAIT.startMs && startMs <= endMs && endMs <= WAIT.endMs, `${startMs} to ${endMs}`);
    }
  });

  it('the work that a part tells has only steps of known names', () => {
    const told = 'total;start=0;dur=1, execute;start=0;dur=1, password;start=0;dur=1, claim;start=0;dur=1';
    assert.deepEqual(
      remoteSpans('agent', told, WAIT).map(({ name }) => name),
      ['total', 'execute'],
    );
  });

  it('the work that a part tells is left out if it is malformed, too long or has too many steps', () => {
    const many = `total;start=0;dur=1${', open;start=0;dur=1'.repeat(20)}`;
    const long = `total;start=0;dur=1, ${'x'.repeat(1024)}`;
    for (const told of [undefined, 7, ['a'], {}, '', 'total', 'total;dur=1', 'total;start=-1;dur=1', many, long]) {
      assert.deepEqual(remoteSpans('agent', told, WAIT), [], String(told));
    }
    assert.deepEqual(remoteSpans('agent', 'total;start=0;dur=NaN', WAIT), []);
  });

  it('the work that a part tells is read as the part has written it', () => {
    const stopwatch = new Stopwatch(performance.now() - 50);
    stopwatch.note('open', 20);
    const [total, open] = parseTimings(stopwatch.read());
    assert.ok(total && total.name === 'total' && total.durationMs >= 50);
    assert.ok(open && open.durationMs === 20 && open.startMs >= 30 && open.startMs <= total.durationMs - 20);
  });
});
