import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { Rendezvous } from './rendezvous.ts';

describe('a rendezvous', () => {
  it('a rendezvous lets the producer wait until the value is taken', async () => {
    const rendezvous = new Rendezvous<number>();
    let isTaken = false;
    const given = rendezvous.give(1)?.then(() => {
      isTaken = true;
    });
    await new Promise((resolve) => setImmediate(resolve));
    assert.equal(isTaken, false);
    assert.equal(await rendezvous.take(), 1);
    await given;
    assert.equal(isTaken, true);
  });

  it('a rendezvous lets no producer wait when a consumer already waits', async () => {
    const rendezvous = new Rendezvous<number>();
    const taken = rendezvous.take();
    assert.equal(rendezvous.give(1), undefined);
    assert.equal(await taken, 1);
  });

  it('a rendezvous ends for both: nothing is waited for any more', async () => {
    const rendezvous = new Rendezvous<number>();
    const taken = rendezvous.take();
    rendezvous.end();
    assert.equal(await taken, undefined);
    assert.equal(rendezvous.give(1), undefined);
    assert.equal(await rendezvous.take(), undefined);
    const left = new Rendezvous<number>();
    const given = left.give(1);
    left.end();
    await given;
  });
});
