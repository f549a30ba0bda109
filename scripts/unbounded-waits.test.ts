/** Checks that a test which waits for something that never happens fails soon and names it. */
import assert from 'node:assert/strict';
import { globSync, readFileSync } from 'node:fs';
import { describe, it } from 'node:test';
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
    it(`is found: ${loop.replaceAll(/\s+/g, ' ')}`, () =>
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
    it(`is not: ${loop.replaceAll(/\s+/g, ' ')}`, () => assert.deepEqual(findUnboundedWaits(loop), []));
  }
});
