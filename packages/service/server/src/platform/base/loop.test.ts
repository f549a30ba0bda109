import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { eventually } from '@cloche/testkit/eventually';
import pino from 'pino';
import { Loop, type Pass } from './loop.ts';

const LONG_MS = 600_000;

/** Runs `pass` in a loop and notes for each pass whether it was woken. */
function looping(pass: (loop: Loop) => Promise<number>) {
  const passes: boolean[] = [];
  const noted: Pass = async (woken) => {
    passes.push(woken);
    await Promise.resolve();
    return pass(loop);
  };
  const loop: Loop = new Loop('test', noted, LONG_MS, pino({ level: 'silent' }));
  return { passes, loop, [Symbol.asyncDispose]: () => loop.stop() };
}

describe('a loop', () => {
  it('a loop waits as long as a pass says, and knows whether it was woken', async () => {
    await using short = looping(async () => 1);
    await eventually(() => short.passes.length > 2, { because: 'a pass follows another' });
    assert.ok(short.passes.every((woken) => !woken));

    await using long = looping(async () => LONG_MS);
    await eventually(() => long.passes.length === 1, { because: 'the first pass begins at once' });
    long.loop.wake();
    await eventually(() => long.passes.length === 2, { because: 'the wait was ended' });
    assert.deepEqual(long.passes, [false, true]);
  });

  it('misses nothing that wakes it during a pass', async () => {
    let wakes = 3;
    await using waking = looping(async (loop) => {
      if (wakes > 0) loop.wake();
      wakes -= 1;
      return LONG_MS;
    });
    const { passes } = waking;
    await eventually(() => passes.length === 4, { because: 'each of three passes was woken while it ran' });
  });

  it('a loop goes on after a failed pass, and ends at once when it is stopped', async () => {
    const failing = looping(() => Promise.reject(new Error('fails')));
    await eventually(() => failing.passes.length === 1, { because: 'the first pass begins at once' });
    failing.loop.wake();
    await eventually(() => failing.passes.length === 2, { because: 'a failure ends no loop' });
    await failing.loop.stop();
  });
});
