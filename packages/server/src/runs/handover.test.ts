import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { Handover } from './handover.ts';

describe('a handover', () => {
  it('lets whoever gives wait until the value is taken', async () => {
    const handover = new Handover<number>();
    let isTaken = false;
    const given = handover.give(1)?.then(() => {
      isTaken = true;
    });
    await new Promise((resolve) => setImmediate(resolve));
    assert.equal(isTaken, false);
    assert.equal(await handover.take(), 1);
    await given;
    assert.equal(isTaken, true);
  });

  it('lets nobody wait when the value was asked for', async () => {
    const handover = new Handover<number>();
    const taken = handover.take();
    assert.equal(handover.give(1), undefined);
    assert.equal(await taken, 1);
  });

  it('ends for both: nothing is waited for any more', async () => {
    const handover = new Handover<number>();
    const taken = handover.take();
    handover.end();
    assert.equal(await taken, undefined);
    assert.equal(handover.give(1), undefined);
    assert.equal(await handover.take(), undefined);
    const left = new Handover<number>();
    const given = left.give(1);
    left.end();
    await given;
  });
});
