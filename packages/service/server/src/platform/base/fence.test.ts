import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { FENCE_MS, Fence } from './fence.ts';

describe('the fence of a server', () => {
  it('the fence of a server closes when the lease was not renewed in time, ends the work once, and opens with the next renewal', () => {
    let now = 1000;
    let ended = 0;
    const fence = new Fence(
      () => (ended += 1),
      () => now,
    );
    assert.equal(fence.isClosed, false);
    fence.renewed(fence.now());
    now += FENCE_MS - 1;
    fence.look();
    assert.deepEqual([fence.isClosed, ended], [false, 0]);
    now += 1;
    assert.equal(fence.isClosed, true);
    fence.look();
    fence.look();
    assert.equal(ended, 1);
    fence.renewed(now);
    assert.equal(fence.isClosed, false);
    now += FENCE_MS;
    fence.look();
    assert.equal(ended, 2);
    fence.stop();
  });

  it('the fence of a server counts a renewal from when it was sent, and ends the work of a process that was stopped before it opens', () => {
    let now = 0;
    let ended = 0;
    const fence = new Fence(
      () => (ended += 1),
      () => now,
    );
    fence.renewed(now);
    const sentAt = fence.now();
    now += FENCE_MS + 5;
    fence.renewed(sentAt);
    assert.deepEqual([fence.isClosed, ended], [true, 1]);
    fence.renewed(fence.now());
    assert.deepEqual([fence.isClosed, ended], [false, 1]);
    fence.stop();
  });

  it('closes in time after a renewal whose answer came late', ({ mock }) => {
    mock.timers.enable({ apis: ['setTimeout'] });
    let now = 0;
    let ended = 0;
    const fence = new Fence(
      () => (ended += 1),
      () => now,
    );
    const pass = (ms: number) => {
      now += ms;
      mock.timers.tick(ms);
    };
    const sentAt = fence.now();
    pass(FENCE_MS - 1000);
    fence.renewed(sentAt);
    pass(1100);
    assert.equal(ended, 1);
    fence.stop();
  });

  it('the fence of a server is closed from the beginning if the first renewal was sent too long ago', () => {
    let now = 0;
    let ended = 0;
    const fence = new Fence(
      () => (ended += 1),
      () => now,
    );
    const sentAt = fence.now();
    now += FENCE_MS;
    fence.renewed(sentAt);
    assert.deepEqual([fence.isClosed, ended], [true, 1]);
    fence.stop();
  });

  it('the fence of a server closes by itself', ({ mock }) => {
    mock.timers.enable({ apis: ['setTimeout'] });
    let now = 0;
    let ended = 0;
    const fence = new Fence(
      () => (ended += 1),
      () => now,
    );
    fence.renewed(now);
    now += FENCE_MS;
    mock.timers.tick(FENCE_MS + 1000);
    assert.equal(ended, 1);
    fence.stop();
  });
});
