import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { longestTurn } from '@cloche/testkit/longest-turn';
import { TimeSlice } from './time-slice.ts';

const STEP_MS = 0.1;
const STEPS = 500;

describe('TimeSlice', () => {
  it('TimeSlice lets other work in between the steps of a long loop', async () => {
    const whole = await longestTurn(() => loop(() => undefined));
    const slice = new TimeSlice();

    const sliced = await longestTurn(() => loop(() => slice.yieldIfOver()));

    assert.ok(sliced < whole / 2, `${sliced} ms of ${whole} ms`);
  });

  it('TimeSlice lets ten loops block other work hardly longer than one', async () => {
    const alone = await longestTurn(() => slicedLoop());

    const together = await longestTurn(async () => {
      // They begin in turns of their own, as requests do.
      const loops: Promise<void>[] = [];
      for (let started = 0; started < 10; started += 1) {
        loops.push(slicedLoop());
        await new Promise(setImmediate);
      }
      await Promise.all(loops);
    });

    assert.ok(together < alone * 5, `${together} ms together, ${alone} ms alone`);
  });
});

function slicedLoop(): Promise<void> {
  const slice = new TimeSlice();
  return loop(() => slice.yieldIfOver());
}

/** Computes for 50 ms and calls `between` after each step. */
async function loop(between: () => Promise<void> | undefined): Promise<void> {
  for (let step = 0; step < STEPS; step += 1) {
    const end = performance.now() + STEP_MS;
    while (performance.now() < end);
    const waits = between();
    if (waits) await waits;
  }
}
