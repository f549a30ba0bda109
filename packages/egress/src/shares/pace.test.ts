import assert from 'node:assert/strict';
import { EventEmitter } from 'node:events';
import { test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { Pace } from './pace.ts';

test('a pace begins a few in each turn, in their order', async () => {
  const pace = new Pace({ atOnce: 100, inATurn: 2 });
  const begun: number[] = [];
  for (let index = 0; index < 5; index += 1) void pace.begin().then(() => begun.push(index));
  assert.equal(pace.underWay, 2);
  await turn();
  assert.equal(pace.underWay, 4);
  await turn();
  await turn();
  assert.deepEqual(begun, [0, 1, 2, 3, 4]);
});

test('a pace has no more under way than it may, and begins another at each end', async () => {
  const pace = new Pace({ atOnce: 2, inATurn: 10 });
  const [first] = [await pace.begin(), await pace.begin()];
  const third = pace.begin();
  await turn();
  assert.deepEqual([pace.underWay, pace.waiting], [2, 1]);
  first?.[Symbol.dispose]();
  first?.[Symbol.dispose]();
  assert.ok(await third);
  assert.deepEqual([pace.underWay, pace.waiting], [2, 0]);
});

test('a pace forgets a client that goes away while it waits, and does not begin for one that is gone', async () => {
  const pace = new Pace({ atOnce: 1, inATurn: 10 });
  const place = await pace.begin();
  const client = new EventEmitter();
  const waiting = pace.begin(client);
  client.emit('close');
  assert.equal(await waiting, undefined);
  assert.equal(await pace.begin(Object.assign(new EventEmitter(), { destroyed: true })), undefined);
  assert.deepEqual([pace.underWay, pace.waiting], [1, 0]);
  place?.[Symbol.dispose]();
  assert.equal(client.listenerCount('close'), 0);
});
