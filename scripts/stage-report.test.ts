import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { after, before, describe, it } from 'node:test';
import type { StageReport } from './stage-report.ts';

/** Code beside a test that passes, and what is said of it. */
const FAILURES: Record<string, [code: string, text: RegExp]> = {
  'a test that fails': ['test("fails", () => { throw new Error("here"); });', /: fails\n {4}Error: here/],
  'an error after the end of a test': [
    'test("ends", () => void setTimeout(() => { throw new Error("late"); }, 20));',
    /exit code 1\. It said last:\n[\s\S]*"ends".*asynchronous activity.*"Error: late"/,
  ],
  'a process that is killed': [
    'process.stderr.write("last words\\n"); test("waits", () => { process.kill(process.pid, "SIGKILL"); return new Promise(() => 0); });',
    /was ended by SIGKILL\. It said last:\n {4}last words/,
  ],
  'an exit code without an error': [
    'process.on("exit", () => { process.exitCode = 3; });',
    /exit code 3 and said nothing/,
  ],
  'a failed disposal after a failed test': [
    'test("fails", async () => { await using open = { [Symbol.asyncDispose]: async () => { throw new Error("at the end"); } }; throw new Error("first"); });',
    /: fails\n {4}Error: first\n[\s\S]* {4}At the disposal:\n {4}Error: at the end/,
  ],
  'a process that keeps something open after its tests': [
    'process.env.CLOCHE_TEST_END_AFTER_MS = "10"; test("opens", () => void setInterval(() => 0, 1000));',
    /exit code 1\. It said last:\n {4}Still open after all tests: .*Timeout/,
  ],
  'an error that no test catches': [
    'process.env.CLOCHE_TEST_END_AFTER_MS = "10"; test("waits", () => { setTimeout(() => Promise.reject(new Error("astray")), 1); return new Promise(() => setInterval(() => 0, 1000)); });',
    /No test caught Error: astray[\s\S]*Still open after an error that no test caught: .*Timeout/,
  ],
  'an error of a promise that no test awaits': [
    'process.env.CLOCHE_TEST_END_AFTER_MS = "10"; test("waits", async () => { await 0; Promise.reject(new Error("astray")); await new Promise(() => setInterval(() => 0, 1000)); });',
    /No test caught Error: astray[\s\S]*Still open after an error that no test caught: .*Timeout/,
  ],
  'a hook after all tests': ['after(() => { throw new Error("in a hook"); });', /Error: in a hook/],
  'a hook of a suite': [
    'describe("suite", () => { after(() => { throw new Error("in a hook"); }); test("passes", () => 0); });',
    /: suite\n {4}Error: in a hook/,
  ],
};
/** Code that passes. The runner must not track promises, which takes a sixth of the processor time. */
const QUIET =
  'process.stderr.write("words\\n"); test("is untracked", async () => { await 0; if (executionAsyncId() !== 0) throw new Error("tracked"); });';

const folder = mkdtempSync(join(tmpdir(), 'cloche-stage-report-'));
let report: StageReport;
let printed: string;
before(() => {
  const codes = [...Object.values(FAILURES).map(([code]) => code), QUIET];
  const files = codes.map((code, index) => {
    const file = join(folder, `${index}.test.mjs`);
    writeFileSync(
      file,
      `import { executionAsyncId } from 'node:async_hooks';\nimport { after, describe, test } from 'node:test';\ntest('passes', () => undefined);\n${code}`,
    );
    return file;
  });
  const json = join(folder, 'report.json');
  const { NODE_TEST_CONTEXT: _, ...env } = process.env;
  const args = ['--import=./scripts/end-after-tests.ts', 'scripts/run-files.ts', `--report=${json}`, ...files];
  ({ stdout: printed } = spawnSync(process.execPath, args, { encoding: 'utf8', env }));
  report = JSON.parse(readFileSync(json, 'utf8'));
});
after(() => rmSync(folder, { recursive: true }));

describe('the report of a stage', () => {
  for (const [index, [name, [, text]]] of Object.entries(FAILURES).entries()) {
    it(`describes ${name}`, () => {
      const ofFile = (all: string) =>
        all
          .split(/^(?=\S)/m)
          .filter((each) => each.includes(`/${index}.test.mjs`))
          .join('');
      assert.match(ofFile(report.failures), text);
      assert.match(ofFile(printed), text);
      assert.match(ofFile(printed), /^✖ .*\.test\.mjs {2}\d passed, [1-9] failed/m);
    });
  }

  it('the report of a stage has the paths of the files that failed', () => {
    const paths = Object.keys(FAILURES).map((_, index) => relative(process.cwd(), join(folder, `${index}.test.mjs`)));
    assert.deepEqual(report.failedFiles.toSorted(), paths.toSorted());
  });

  it('the report of a stage counts each of them once, and says nothing of files that passed, whatever they printed', () => {
    assert.equal(report.failed, Object.keys(FAILURES).length);
    assert.ok(!report.failures.includes(`/${Object.keys(FAILURES).length}.test.mjs`), report.failures);
  });
});
