/** The stage `python` of `npm test`: lint, format, types and unit tests of the Python. Each Python test counts as one. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { CACHE_DIR, findPythonPackages } from '../packages/agent/src/testing/test-cache.ts';
import { WebhookSecrets } from '../packages/server/src/webhooks/webhook-secrets.ts';
import { ensurePythonTools, PYTHON } from './python-tools.ts';

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

const tools = skip ? '' : ensurePythonTools(CACHE_DIR, packages ?? '');

describe('the Python of the project', { skip }, () => {
  const ruff = join(tools, 'bin/ruff');

  it('has no problems that Ruff knows', () => succeeds(ruff, ['check', '--no-cache', '--output-format=concise', '.']));
  it('is formatted', () => succeeds(ruff, ['format', '--no-cache', '--check', '.']));
  it('has types that agree', () =>
    succeeds(process.execPath, ['node_modules/pyright/index.js', '--pythonpath', PYTHON]));
});

describe('the library of the Standard Webhooks specification for Python', { skip }, () => {
  const secrets = new WebhookSecrets(randomBytes(32));
  const body = JSON.stringify({ type: 'sandbox.ready', data: 'ünïcode ☃' });
  const secret = secrets.make();
  const webhook = { id: 'whk_1', secret: secrets.seal(secret, 'whk_1'), previousSecret: undefined } as const;
  const headers = secrets.sign({ ...webhook, previousSecretUntil: undefined }, { id: 'evt_1', body }, Date.now());
  const program =
    'import json, sys; from standardwebhooks import Webhook; given = json.load(sys.stdin); ' +
    'assert Webhook(given["secret"]).verify(given["body"], given["headers"])["type"] == "sandbox.ready"';
  const verify = (message: object) =>
    spawnSync(PYTHON, ['-c', program], {
      env: { ...env, PYTHONPATH: tools },
      encoding: 'utf8',
      input: JSON.stringify({ secret, headers, body, ...message }),
    });

  it('verifies what the server signs', () => assert.equal(verify({}).stderr, ''));
  it('refuses another secret', () =>
    assert.match(verify({ secret: secrets.make() }).stderr, /WebhookVerificationError: No matching signature/));
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
