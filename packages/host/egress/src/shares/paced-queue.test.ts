import assert from 'node:assert/strict';
import { EventEmitter } from 'node:events';
import { test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { PacedQueue } from './paced-queue.ts';

test('a pace begins a few in each turn, in their order', async () => {
  const queue = new PacedQueue({ concurrency: 100, startsPerTurn: 2 });
  const begun: number[] = [];
  for (let index = 0; index < 5; index += 1) void queue.begin().then(() => begun.push(index));
  assert.equal(queue.running, 2);
  await turn();
  assert.equal(queue.running, 4);
  await turn();
  await turn();
  assert.deepEqual(begun, [0, 1, 2, 3, 4]);
});

test('a pace has no more under way than it may, and begins another at each end', async () => {
  const queue = new PacedQueue({ concurrency: 2, startsPerTurn: 10 });
  const [first] = [await queue.begin(), await queue.begin()];
  const third = queue.begin();
  await turn();
  assert.deepEqual([queue.running, queue.waiting], [2, 1]);
  first?.[Symbol.dispose]();
  first?.[Symbol.dispose]();
  assert.ok(await third);
  assert.deepEqual([queue.running, queue.waiting], [2, 0]);
});

test('a pace forgets a client that goes away while it waits, and does not begin for one that is gone', async () => {
  const queue = new PacedQueue({ concurrency: 1, startsPerTurn: 10 });
  const place = await queue.begin();
  const client = new EventEmitter();
  const waiting = queue.begin(client);
  client.emit('close');
  assert.equal(await waiting, undefined);
  assert.equal(await queue.begin(Object.assign(new EventEmitter(), { destroyed: true })), undefined);
  assert.deepEqual([queue.running, queue.waiting], [1, 0]);
  place?.[Symbol.dispose]();
  assert.equal(client.listenerCount('close'), 0);
});
