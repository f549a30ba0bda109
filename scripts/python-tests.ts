/** Runs tests that are written in Python, each as a test of Node's runner. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { describe, it } from 'node:test';
import { PYTHON } from './python-tools.ts';

const REPORT = join(import.meta.dirname, '../packages/guest/kernel-python/tests/report.py');
const TESTS_MS = 180_000;

/** A test in the report that `packages/guest/kernel-python/tests/report.py` writes. */
export interface PythonTest {
  readonly group: string;
  readonly title: string;
  readonly status: 'passed' | 'failed' | 'skipped';
  readonly details: string;
}

export interface PythonTests {
  /** Empty if the tests did not run to their end. */
  readonly tests: readonly PythonTest[];
  readonly output: string;
}

/** Runs the `test_*.py` files of a folder. */
export async function runPythonTests(tests: string, env: NodeJS.ProcessEnv, timeout = TESTS_MS): Promise<PythonTests> {
  const folder = mkdtempSync(join(tmpdir(), 'cloche-python-tests-'));
  try {
    const file = join(folder, 'report.json');
    const process = spawn(PYTHON, [REPORT, file, tests], { cwd: folder, env, timeout });
    process.stdin.end();
    const [stdout, stderr] = await Promise.all([text(process.stdout), text(process.stderr), once(process, 'close')]);
    const output = `${stdout}${stderr}`;
    try {
      return { tests: JSON.parse(readFileSync(file, 'utf8')) as PythonTest[], output };
    } catch {
      return { tests: [], output };
    }
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Declares a test for each test of the report. */
export function describePythonTests(name: string, { tests, output }: PythonTests): void {
  it(`${name} has unit tests that run to their end`, () => assert.ok(tests.length > 0, output));
  for (const [group, ofGroup] of Map.groupBy(tests, (each) => each.group)) {
    describe(`${name}: ${group}`, () => {
      for (const { title, status, details } of ofGroup)
        it(title, { skip: status === 'skipped' && details }, () => assert.equal(status, 'passed', details));
    });
  }
}
