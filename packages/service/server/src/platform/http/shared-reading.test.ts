import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { SharedReading } from './shared-reading.ts';

/** A reading whose steps the test takes. */
function steps() {
  const readings: PromiseWithResolvers<string>[] = [];
  const waits: { ms: number; over: () => void }[] = [];
  let now = 0;
  const reading = new SharedReading(
    () => {
      const next = Promise.withResolvers<string>();
      readings.push(next);
      return next.promise;
    },
    { now: () => now, wait: (ms) => new Promise((over) => waits.push({ ms, over })) },
  );
  return {
    reading,
    readings,
    waits,
    advance: (ms: number) => {
      now += ms;
    },
  };
}

const turn = () => new Promise(setImmediate);

describe('a reading', () => {
  it('a reading that is under way is followed by one for all who ask meanwhile', async () => {
    const { reading, readings, waits } = steps();
    const first = reading.get();
    await turn();
    const later = Array.from({ length: 500 }, () => reading.get());
    readings[0]?.resolve('first');
    assert.equal(await first, 'first');
    await turn();
    assert.equal(readings.length, 1);
    waits[0]?.over();
    await turn();
    assert.equal(readings.length, 2);
    readings[1]?.resolve('second');
    assert.deepEqual(new Set(await Promise.all(later)), new Set(['second']));
  });

  it('a reading is followed by a pause of nine times as long, at most a second', async () => {
    const { reading, readings, waits, advance } = steps();
    for (const [at, [tookMs, restMs]] of [
      [5, 45],
      [5_000, 1_000],
    ].entries()) {
      const asked = reading.get();
      await turn();
      advance(tookMs ?? 0);
      readings[at]?.resolve('');
      await asked;
      assert.equal(waits[at]?.ms, restMs);
      waits[at]?.over();
    }
  });

  it('a reading that fails fails for those who asked for it alone', async () => {
    const { reading, readings, waits } = steps();
    const failing = reading.get();
    await turn();
    readings[0]?.reject(new Error('no'));
    await assert.rejects(failing, /no/);
    waits[0]?.over();
    const next = reading.get();
    await turn();
    readings[1]?.resolve('yes');
    assert.equal(await next, 'yes');
  });
});
