import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { test } from 'node:test';

/** Tells how often all garbage was collected within `forMs`, while it is touched each `touchMs`. */
const PROGRAM = (touchMs: number, forMs: number) => `
import { constants, PerformanceObserver } from 'node:perf_hooks';
import { IdleTidying } from ${JSON.stringify(new URL('idle-tidying.ts', import.meta.url).href)};
let collected = 0;
const isWhole = ({ detail }) => detail.flags & constants.NODE_PERFORMANCE_GC_FLAGS_ALL_AVAILABLE_GARBAGE;
new PerformanceObserver((list) => { collected += list.getEntries().filter(isWhole).length > 0; }).observe({ entryTypes: ['gc'] });
const tidying = new IdleTidying(150);
const touching = setInterval(() => tidying.touch(), ${touchMs});
setTimeout(() => { clearInterval(touching); console.log(collected); }, ${forMs});
`;

function collections(touchMs: number, forMs: number): number {
  const args = ['--input-type=module', '--eval', PROGRAM(touchMs, forMs)];
  return Number(execFileSync(process.execPath, args).toString());
}

test('memory that requests took is given back once, when there are no more', () => {
  assert.equal(collections(60_000, 900), 1);
  assert.equal(collections(10, 900), 0);
  assert.ok(collections(400, 1400) >= 2, 'after each lull');
});
