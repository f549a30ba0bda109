/** The stage `python` of `npm test`: lint, format, types and unit tests of the Python. Each Python test counts as one. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { CACHE_DIR, findPythonPackages } from '../packages/agent/src/testing/test-cache.ts';
import { ensureRuff, PYTHON } from './python-tools.ts';

const ROOT = join(import.meta.dirname, '..');
const KERNEL_PYTHON = join(ROOT, 'packages/kernel-python');

/** A test in the report that `packages/kernel-python/tests/report.py` writes. */
interface PythonTest {
  readonly group: string;
  readonly title: string;
  readonly status: 'passed' | 'failed' | 'skipped';
  readonly details: string;
}

const packages = findPythonPackages();
const skip = packages === undefined && 'no python-node template is built: run `npm test -- prepare python`';
const env = {
  PATH: process.env.PATH,
  HOME: '/nonexistent',
  PYTHONPATH: `${KERNEL_PYTHON}:${packages}`,
  PYTHONDONTWRITEBYTECODE: '1',
};

describe('the Python of the project', { skip }, () => {
  const ruff = skip ? '' : ensureRuff(CACHE_DIR, packages ?? '');

  it('has no problems that Ruff knows', () => succeeds(ruff, ['check', '--no-cache', '--output-format=concise', '.']));
  it('is formatted', () => succeeds(ruff, ['format', '--no-cache', '--check', '.']));
  it('has types that agree', () =>
    succeeds(process.execPath, ['node_modules/pyright/index.js', '--pythonpath', PYTHON]));
});

if (!skip) {
  const { tests, output } = runPythonTests();
  it('has unit tests that run to their end', () => assert.ok(tests.length > 0, output));
  for (const [group, ofGroup] of Map.groupBy(tests, (each) => each.group)) {
    describe(group, () => {
      for (const { title, status, details } of ofGroup)
        it(title, { skip: status === 'skipped' && details }, () => assert.equal(status, 'passed', details));
    });
  }
}

function succeeds(command: string, args: readonly string[]): void {
  const { status, stdout, stderr, error } = spawnSync(command, args, { cwd: ROOT, env, encoding: 'utf8' });
  assert.equal(status, 0, error?.message ?? `${stdout}${stderr}`);
}

function runPythonTests(): { tests: PythonTest[]; output: string } {
  const folder = mkdtempSync(join(tmpdir(), 'cloche-python-tests-'));
  try {
    const file = join(folder, 'report.json');
    const command = [join(KERNEL_PYTHON, 'tests/report.py'), file];
    const { stdout, stderr } = spawnSync(PYTHON, command, { cwd: folder, env, encoding: 'utf8', timeout: 120_000 });
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
