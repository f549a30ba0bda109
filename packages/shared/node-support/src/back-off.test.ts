import assert from 'node:assert/strict';
import { test } from 'node:test';
import { BackOff, pause } from './back-off.ts';

test('doubles up to the longest pause, and begins again after a reset', () => {
  const backOff = new BackOff({ firstMs: 10, longestMs: 35 });
  assert.deepEqual([backOff.next(), backOff.next(), backOff.next(), backOff.next()], [10, 20, 35, 35]);
  backOff.reset();
  assert.equal(backOff.next(), 10);
});

test('a pause ends early, without an error, when its signal aborts', async () => {
  const controller = new AbortController();
  const backOff = new BackOff({ firstMs: 60_000, longestMs: 60_000 });
  const startedAt = performance.now();
  const pauses = [backOff.pause(controller.signal), pause(60_000, controller.signal)];
  controller.abort(new Error('stopped'));
  await Promise.all([...pauses, backOff.pause(controller.signal)]);
  assert.ok(performance.now() - startedAt < 30_000);
});

test('a pause lasts its time', async () => {
  const startedAt = performance.now();
  await new BackOff({ firstMs: 20, longestMs: 20 }).pause(new AbortController().signal);
  assert.ok(performance.now() - startedAt >= 19);
});
