/**
 * Checks that a test which waits for something that never happens fails soon and names it, and that waits of the server
 * and its gateways are bounded in one way.
 */
import assert from 'node:assert/strict';
import { globSync, readFileSync } from 'node:fs';
import { describe, it } from 'node:test';
import { findBareTimeouts } from './bare-timeouts.ts';
import { findUnboundedWaits } from './unbounded-waits.ts';

/** Files with loops of other programs, each with the reason. */
const EXCEPT: Readonly<Record<string, string>> = {
  'packages/guest/kernel-js/src/interruption.test.ts': 'the code of its cells loops, and is interrupted',
  'scripts/unbounded-waits.test.ts': 'it quotes such loops',
};

describe('a test', () => {
  it('waits with eventually() or settled(), never in a loop without a limit', () => {
    const files = globSync(['{packages/*/*,bench}/src/**/*.ts', 'e2e/**/*.ts', 'scripts/*.ts'], {
      exclude: ['packages/*/*/node_modules/**', ...Object.keys(EXCEPT)],
    }).filter((file) => /\.test\.ts$|\/(testing|test)\/|^e2e\//.test(file));
    assert.ok(files.length > 100, 'the files are found');
    const found = files.flatMap((file) =>
      findUnboundedWaits(readFileSync(file, 'utf8')).map(({ line, text }) => `${file}:${line}: ${text}`),
    );
    assert.deepEqual(found, []);
  });
});

describe('a loop without a limit', () => {
  const WITHOUT_LIMIT = [
    'while (!isDone()) await delay(5);',
    'while (!isDone()) await new Promise((resolve) => setImmediate(resolve));',
    'while (taken < 8) await once(host, "connection");',
    'while (read() === undefined) {\n  look();\n  await sleep(1);\n}',
    'for (;;) {\n  if (isDone()) return;\n  await setTimeout(20);\n}',
    'for (let earlier = -1; ; await delay(700)) {}',
  ];
  for (const loop of WITHOUT_LIMIT) {
    it(`a loop without a limit is reported: ${loop.replaceAll(/\s+/g, ' ')}`, () =>
      assert.equal(findUnboundedWaits(`begin();\n${loop}`)[0]?.line, 2));
  }

  const WITH_LIMIT = [
    'while (performance.now() < deadline) await delay(5);',
    'while (!isOver) {\n  look();\n  await delay(20);\n}',
    'for (let turn = 0; turn < 50; turn++) await turnOfLoop();',
    'for (const piece of pieces) await delay(5);',
    'while (left > 0) left -= await take();',
  ];
  for (const loop of WITH_LIMIT) {
    it(`a loop that ends is not reported: ${loop.replaceAll(/\s+/g, ' ')}`, () =>
      assert.deepEqual(findUnboundedWaits(loop), []));
  }
});

/** Adapters of the runtime: a request to hostd or an agent is their own, and ends with its connection. */
const DRIVERS = 'packages/service/runtime/src/{driver/hostd,agent-client}/**';

describe('the server', () => {
  const sources = globSync('packages/{service,gateways}/*/src/**/*.ts', {
    exclude: ['**/*.test.ts', '**/testing/**', DRIVERS],
  });
  const found = (plant = new Map<string, string>()) =>
    sources.flatMap((file) =>
      findBareTimeouts(readFileSync(file, 'utf8') + (plant.get(file) ?? '')).map(({ text }) => `${file}: ${text}`),
    );

  it('the server bounds its waits with a Deadline, never with AbortSignal.timeout, outside of drivers', () => {
    assert.ok(sources.length > 400, 'the files are found');
    assert.deepEqual(found(), []);
  });

  it('a bare AbortSignal.timeout that is planted in any package is reported', () => {
    const planted = [
      'server/src/platform/http/execute.ts',
      'runtime/src/driver/runtime-driver.ts',
      'mcp/src/serve-stdio.ts',
    ];
    const files = planted.map(
      (end) => sources.find((file) => file.endsWith(end)) ?? assert.fail(`${end} is not found`),
    );
    const plant = new Map(files.map((file) => [file, '\nawait act(AbortSignal.timeout(1000));\n']));
    assert.deepEqual(new Set(found(plant)), new Set(files.map((file) => `${file}: AbortSignal.timeout`)));
  });
});

describe('a bare AbortSignal.timeout', () => {
  const BARE = [
    'await act(AbortSignal.timeout(5));',
    'const either = AbortSignal.any([signal, AbortSignal.timeout(5)]);',
    'await act(AbortSignal\n  .timeout(5));',
    "await act(AbortSignal['timeout'](5));",
    'const { timeout } = AbortSignal;',
    'const { any, timeout: inTime } = AbortSignal;',
    'const make = AbortSignal.timeout;',
    'await act(globalThis.AbortSignal?.timeout(5));',
  ];
  for (const use of BARE) {
    it(`a bare AbortSignal.timeout is reported: ${use.replaceAll(/\s+/g, ' ')}`, () =>
      assert.equal(findBareTimeouts(`begin();\n${use}`)[0]?.line, 2));
  }

  const OTHER = [
    '// AbortSignal.timeout would leave its timer behind.',
    '/**\n * In place of AbortSignal.timeout.\n */',
    'const either = AbortSignal.any([signal, limit.signal]);',
    'const { timeout } = options;',
    'using limit = new Deadline(5, signal);',
    "const url = 'http://host/'; AbortSignal.abort();",
  ];
  for (const use of OTHER) {
    it(`a line without a bare AbortSignal.timeout is not reported: ${use.replaceAll(/\s+/g, ' ')}`, () =>
      assert.deepEqual(findBareTimeouts(use), []));
  }
});
