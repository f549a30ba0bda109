/** Holds E2B's protocol to E2B's own Python clients, sync and async. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { after, before, it } from 'node:test';
import { CACHE_DIR, findPythonPackages } from '../../packages/agent/src/testing/test-cache.ts';
import { ensurePythonTools, PYTHON } from '../../scripts/python-tools.ts';
import { type TestService, testService } from '../support/service.ts';

const ROOT = join(import.meta.dirname, '../..');
const PROGRAM = join(ROOT, 'e2e/support/e2b_clients.py');

let service: TestService;
before(async () => {
  service = await testService();
});
after(() => service?.close());

it('E2B’s clients for Python, sync and async, use sandboxes, commands, files, watches, code and contexts', async (t) => {
  const packages = findPythonPackages();
  assert.ok(packages, 'no python-node template is built');
  const env = {
    PATH: process.env.PATH,
    HOME: '/nonexistent',
    PYTHONPATH: ensurePythonTools(CACHE_DIR, packages, join(ROOT, 'requirements-e2b.txt')),
    PYTHONDONTWRITEBYTECODE: '1',
    E2B_API_KEY: service.apiKey,
    E2B_API_URL: `${service.url}/e2b`,
    E2B_SANDBOX_URL: `${service.url}/e2b-box`,
  };
  const { code, said } = await run(env);
  t.diagnostic(/^Ran \d+ tests.*$/m.exec(said)?.[0] ?? 'no test ran');
  assert.equal(code, 0, said);
  assert.match(said, /^OK$/m);
});

function run(env: NodeJS.ProcessEnv): Promise<{ code: number; said: string }> {
  return new Promise((resolve) => {
    const child = execFile(PYTHON, [PROGRAM], { env, timeout: 240_000 }, (_error, stdout, stderr) => {
      resolve({ code: child.exitCode ?? 1, said: stdout + stderr });
    });
  });
}
