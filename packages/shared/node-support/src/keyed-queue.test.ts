import assert from 'node:assert/strict';
import { test } from 'node:test';
import { KeyedQueue } from './keyed-queue.ts';

test('a keyed queue runs the tasks of a key one after another, and those of another key beside them', async () => {
  const queue = new KeyedQueue<string>();
  const order: string[] = [];
  const first = Promise.withResolvers<void>();
  const running = [
    queue.run('a', async () => {
      await first.promise;
      order.push('a1');
    }),
    queue.run('a', async () => void order.push('a2')),
    queue.run('b', async () => void order.push('b1')),
  ];
  await running[2];
  assert.deepEqual(order, ['b1']);
  first.resolve();
  await Promise.all(running);
  assert.deepEqual(order, ['b1', 'a1', 'a2']);
});

test('a keyed queue goes on after a task that failed', async () => {
  const queue = new KeyedQueue<string>();
  const failing = queue.run('a', () => Promise.reject(new Error('failed')));
  const next = queue.run('a', async () => 'done');
  await assert.rejects(failing, /failed/);
  assert.equal(await next, 'done');
});

test('a keyed queue is busy with a key until its last task has settled', async () => {
  const queue = new KeyedQueue<string>();
  const task = Promise.withResolvers<void>();
  const running = queue.run('a', () => task.promise);
  assert.equal(queue.isBusy('a'), true);
  assert.equal(queue.isBusy('b'), false);
  task.resolve();
  await running;
  assert.equal(queue.isBusy('a'), false);
});

test('a keyed queue is idle when the tasks are done that were queued while it waited', async () => {
  const queue = new KeyedQueue<string>();
  let isDone = false;
  const first = queue.run('a', async () => {
    void queue.run('b', async () => {
      isDone = true;
    });
  });
  await queue.idle();
  await first;
  assert.equal(isDone, true);
});
