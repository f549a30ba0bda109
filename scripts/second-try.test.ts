import assert from 'node:assert/strict';
import { it } from 'node:test';
import { type RunFiles, SecondTry } from './second-try.ts';

/** Two tests a file. `failures`: how often one test of a file fails. */
function runner(failures: Record<string, number>) {
  const runs: (readonly string[])[] = [];
  const run: RunFiles = async (files) => {
    runs.push(files);
    const failedFiles = files.filter((file) => (failures[file] ?? 0) > 0);
    for (const file of failedFiles) failures[file] = (failures[file] ?? 0) - 1;
    const failed = failedFiles.length;
    const passed = 2 * files.length - failed;
    return {
      passed,
      failed,
      skipped: 0,
      failures: failedFiles.map((file) => `✖ ${file}\n`).join(''),
      failedFiles,
      seconds: {},
    };
  };
  return { runs, run };
}

it('a file that fails is run once more, and passes if it does then, which is told', async () => {
  const { runs, run } = runner({ b: 1 });
  const again = new SecondTry();
  const { passed, failed } = await again.run(['a', 'b'], run);
  assert.deepEqual({ passed, failed, runs }, { passed: 4, failed: 0, runs: [['a', 'b'], ['b']] });
  assert.deepEqual(again.texts, ['✖ b\n']);
});

it('a file that fails twice has failed', async () => {
  const { runs, run } = runner({ b: 2 });
  const again = new SecondTry();
  const { passed, failed, failures } = await again.run(['a', 'b'], run);
  assert.deepEqual({ passed, failed, tries: runs.length }, { passed: 3, failed: 1, tries: 2 });
  assert.match(failures, /✖ b\nAt the second try:\n✖ b/);
  assert.deepEqual(again.texts, []);
});

it('a whole run has a second try of at most five files', async () => {
  const again = new SecondTry();
  assert.equal((await again.run(['a', 'b'], runner({ a: 1, b: 1 }).run)).failed, 0);
  const { runs, run } = runner({ c: 1, d: 1, e: 1, f: 1 });
  assert.equal((await again.run(['c', 'd', 'e', 'f'], run)).failed, 4);
  assert.equal(runs.length, 1);
});

it('a failure without a file, such as that of the runner itself, stays', async () => {
  const report = { passed: 1, failed: 1, skipped: 0, failures: '', failedFiles: [], seconds: {} };
  assert.equal((await new SecondTry().run(['a'], async () => report)).failed, 1);
});
