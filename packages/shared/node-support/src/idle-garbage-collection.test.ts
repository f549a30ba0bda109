import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { test } from 'node:test';

/** Timers of a simulated clock; those of `mock.timers` cannot be refreshed. */
const CLOCK = `
let now = 0;
const timers = new Set();
globalThis.clearTimeout = (timer) => void timers.delete(timer);
globalThis.setTimeout = (act, ms) => {
  const timer = { act, unref: () => timer, refresh: () => { timer.at = now + ms; timers.add(timer); } };
  timer.refresh();
  return timer;
};
const goBy = (ms) => {
  now += ms;
  for (const timer of timers) if (timer.at <= now) { timers.delete(timer); timer.act(); }
};
`;

/** Prints how often all garbage was collected within `forMs`, with a touch every `touchMs`. */
const PROGRAM = (
  touchMs: number,
  forMs: number,
  { make = 'new IdleGarbageCollection(150)', touch = 'tidying.touch()' } = {},
) => `
import { constants, PerformanceObserver } from 'node:perf_hooks';
import { EventEmitter } from 'node:events';
import { setImmediate } from 'node:timers/promises';
import { IdleGarbageCollection, collectGarbageWhenIdle } from ${JSON.stringify(new URL('idle-garbage-collection.ts', import.meta.url).href)};
${CLOCK}
let collected = 0;
const isWhole = ({ detail }) => detail.flags & constants.NODE_PERFORMANCE_GC_FLAGS_ALL_AVAILABLE_GARBAGE;
new PerformanceObserver((list) => { collected += list.getEntries().filter(isWhole).length > 0; }).observe({ entryTypes: ['gc'] });
const server = new EventEmitter();
const tidying = ${make};
for (let step = 0; step < ${forMs / 10}; step++) {
  goBy(10);
  // Collections are told of a turn later.
  await setImmediate();
  if (now % ${touchMs} === 0) ${touch};
}
await setImmediate();
console.log(collected);
`;

function collections(...told: Parameters<typeof PROGRAM>): number {
  const args = ['--input-type=module', '--eval', PROGRAM(...told)];
  return Number(execFileSync(process.execPath, args).toString());
}

test('memory that requests took is given back once, when there are no more', () => {
  assert.equal(collections(60_000, 900), 1);
  assert.equal(collections(10, 900), 0);
  assert.ok(collections(400, 1400) >= 2, 'after each lull');
});

test('a process that is still busy with old work is left alone until the work is over', () => {
  assert.equal(collections(60_000, 900, { make: 'new IdleGarbageCollection(150, () => true)' }), 0);
  assert.equal(collections(60_000, 1500, { make: 'new IdleGarbageCollection(150, () => now < 600)' }), 1);
});

test('a garbage collection waits for requests to a server, but not for those of monitors', () => {
  const make = 'collectGarbageWhenIdle(server, 150)';
  const asked = (url: string) => collections(10, 900, { make, touch: `server.emit('request', { url: '${url}' })` });
  assert.equal(asked('/v1/sandboxes'), 0);
  assert.deepEqual(['/health', '/healthz', '/readyz', '/metrics'].map(asked), [1, 1, 1, 1]);
});
