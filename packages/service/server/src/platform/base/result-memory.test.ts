import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { ResultMemory, ResultMemoryLimit, SMALL_RESULT_BYTES } from './result-memory.ts';

const LARGE = SMALL_RESULT_BYTES + 1;
const forever = new AbortController().signal;

/** Returns, for each promise, whether it has resolved. */
async function settled(promises: readonly (Promise<void> | undefined)[]): Promise<boolean[]> {
  const seen = promises.map(() => false);
  promises.forEach((promise, index) => {
    promise?.then(() => {
      seen[index] = true;
    });
  });
  await new Promise(setImmediate);
  return seen;
}

describe('the memory of results', () => {
  it('the memory of results is there at once for what is small, however much else is held', async () => {
    const limit = new ResultMemoryLimit({ total: 1, perOrganization: 1 });
    await limit.open('org_1').hold(LARGE, forever);
    const small = limit.open('org_1');
    assert.equal(small.hold(SMALL_RESULT_BYTES - 1, forever), undefined);
    assert.equal(small.hold(1, forever), undefined);
  });

  it('the memory of results is given to a few large results at once, and to the next as one is released', async () => {
    const limit = new ResultMemoryLimit({ total: 2, perOrganization: 2 });
    const all = Array.from({ length: 3 }, () => limit.open('org_1'));
    const waits = all.map((room) => room.hold(LARGE, forever));
    assert.deepEqual(await settled(waits), [true, true, false]);
    assert.equal(all[0]?.hold(LARGE, forever), undefined);
    all[0]?.release();
    assert.deepEqual(await settled(waits), [true, true, true]);
  });

  it('the memory of results leaves room for other organizations, however many requests of one wait', async () => {
    const limit = new ResultMemoryLimit({ total: 2, perOrganization: 1 });
    const greedy = Array.from({ length: 5 }, () => limit.open('org_1'));
    const waits = greedy.map((room) => room.hold(LARGE, forever));
    const other = limit.open('org_2').hold(LARGE, forever);
    assert.deepEqual(await settled([...waits, other]), [true, false, false, false, false, true]);
  });

  it('the memory of results is released when its request ends, also while it waits', async () => {
    const limit = new ResultMemoryLimit({ total: 1, perOrganization: 1 });
    const [first, second, third] = Array.from({ length: 3 }, () => limit.open('org_1'));
    const left = new AbortController();
    await first?.hold(LARGE, forever);
    const waiting = second?.hold(LARGE, left.signal);
    left.abort(new Error('left'));
    await assert.rejects(waiting ?? Promise.resolve(), /left/);
    second?.release();
    const last = third?.hold(LARGE, forever);
    first?.release();
    first?.release();
    assert.deepEqual(await settled([last]), [true]);
  });

  it('the memory of results is released at once when it is granted after its request has ended', async () => {
    const limit = new ResultMemoryLimit({ total: 1, perOrganization: 1 });
    const [first, second, third] = Array.from({ length: 3 }, () => limit.open('org_1'));
    await first?.hold(LARGE, forever);
    const late = second?.hold(LARGE, forever);
    second?.release();
    first?.release();
    await late;
    assert.deepEqual(await settled([third?.hold(LARGE, forever)]), [true]);
  });

  it('the memory of results has no limit in work that the service does by itself', async () => {
    const memories = Array.from({ length: 20 }, () => ResultMemory.unlimited());
    assert.deepEqual(await settled(memories.map((memory) => memory.hold(LARGE, forever))), Array(20).fill(true));
    for (const memory of memories) memory.release();
  });
});
