import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { setTimeout as delay, setImmediate } from 'node:timers/promises';
import { eventually } from '@cloche/testkit/eventually';
import { type InstanceKey, instanceKey } from '../instance/instance-key.ts';
import { ReclaimQueue } from './reclaim-queue.ts';

const [A, B, C] = ['sbx_a', 'sbx_b', 'sbx_c'].map((sandboxId) => instanceKey({ sandboxId, generation: 1 })) as [
  InstanceKey,
  InstanceKey,
  InstanceKey,
];
const NEVER_MS = 3_600_000;

/** A queue whose reclaims take as long as a test says. */
function queueOf({ delayMs = 0, tookMs = 0 } = {}) {
  const begun: { key: InstanceKey; signal: AbortSignal; end: () => void; at: number }[] = [];
  const reclaim = (key: InstanceKey, signal: AbortSignal) =>
    new Promise<number>((resolve) => {
      const end = () => resolve(tookMs);
      begun.push({ key, signal, end, at: performance.now() });
      signal.addEventListener('abort', end);
    });
  const queue = new ReclaimQueue({ delayMs, reclaim });
  const keys = () => begun.map(({ key }) => key);
  return { queue, begun, keys, [Symbol.asyncDispose]: () => queue.close() };
}

async function turns(): Promise<void> {
  for (let turn = 0; turn < 10; turn += 1) await setImmediate();
}

describe('a queue of reclaims', () => {
  it('a queue of reclaims takes one after another, in the order of their freezes', async () => {
    await using made = queueOf();
    const { queue, begun, keys } = made;
    for (const key of [A, B, C]) queue.add(key);
    await turns();
    assert.deepEqual(keys(), [A]);
    begun[0]?.end();
    await turns();
    assert.deepEqual(keys(), [A, B]);
  });

  it('a queue of reclaims waits after a freeze, and anew after a further one', async () => {
    await using made = queueOf({ delayMs: 60 });
    const { queue, keys, begun } = made;
    const frozenAt = performance.now();
    queue.add(A);
    queue.add(B);
    await delay(30);
    queue.remove(A);
    queue.add(A);
    await eventually(() => begun.length === 1);
    assert.deepEqual(keys(), [B]);
    assert.ok((begun[0]?.at ?? 0) - frozenAt >= 59);
    begun[0]?.end();
    await eventually(() => begun.length === 2);
    assert.deepEqual(keys(), [B, A]);
    assert.ok((begun[1]?.at ?? 0) - frozenAt >= 89);
  });

  it('a queue of reclaims rests nine times as long as a reclaim has taken', async () => {
    await using made = queueOf({ tookMs: 20 });
    const { queue, begun } = made;
    queue.add(A);
    queue.add(B);
    await turns();
    const endedAt = performance.now();
    begun[0]?.end();
    await eventually(() => begun.length === 2);
    assert.ok((begun[1]?.at ?? 0) - endedAt >= 179, `${(begun[1]?.at ?? 0) - endedAt} ms`);
  });

  it('a queue of reclaims stops the one of an instance that is removed, and forgets one that waits', async () => {
    await using made = queueOf();
    const { queue, begun, keys } = made;
    for (const key of [A, B, C]) queue.add(key);
    await turns();
    queue.remove(B);
    queue.remove(A);
    assert.equal(begun[0]?.signal.aborted, true);
    await turns();
    assert.deepEqual(keys(), [A, C]);
    assert.equal(begun[1]?.signal.aborted, false);
  });

  it('a queue of reclaims does not wait or rest while a caller hurries, who gets the answer when there is enough', async () => {
    await using made = queueOf({ delayMs: NEVER_MS, tookMs: NEVER_MS });
    const { queue, begun, keys } = made;
    for (const key of [A, B, C]) queue.add(key);
    let isEnough = false;
    const hurried = queue.hurry(() => isEnough, NEVER_MS);
    await turns();
    begun[0]?.end();
    await turns();
    isEnough = true;
    begun[1]?.end();
    await hurried;
    await turns();
    assert.deepEqual(keys(), [A, B]);
    // The last one is due in an hour, and the rest after the others is longer.
  });

  for (const [title, keysInQueue] of [
    ['nothing waits', []],
    ['all that waited is removed', [A]],
  ] as const) {
    it(`a caller does not hurry in vain: ${title}`, async () => {
      await using made = queueOf({ delayMs: NEVER_MS });
      const { queue } = made;
      for (const key of keysInQueue) queue.add(key);
      for (const key of keysInQueue) queue.remove(key);
      await queue.hurry(() => false, NEVER_MS);
    });
  }

  it('a caller hurries for no longer than its time', async () => {
    await using made = queueOf();
    const { queue } = made;
    queue.add(A);
    await queue.hurry(() => false, 20);
  });

  it('a queue of reclaims goes on after one that failed', async () => {
    const begun: InstanceKey[] = [];
    const reclaim = async (key: InstanceKey) => {
      begun.push(key);
      throw new Error('no such program');
    };
    const queue = new ReclaimQueue({ delayMs: 0, reclaim });
    queue.add(A);
    queue.add(B);
    await turns();
    assert.deepEqual(begun, [A, B]);
  });

  it('a queue of reclaims that is closed stops what it does, and takes nothing more', async () => {
    await using made = queueOf();
    const { queue, begun, keys } = made;
    queue.add(A);
    queue.add(B);
    await turns();
    await queue.close();
    assert.equal(begun[0]?.signal.aborted, true);
    queue.add(C);
    await turns();
    assert.deepEqual(keys(), [A]);
  });
});
