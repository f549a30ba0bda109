import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { CACHE_DIR, findPythonPackages } from '../../packages/guest/agent/testing/test-cache.ts';
import { SDK_PYTHON } from '../../scripts/python-sdk.ts';
import { runPythonTests } from '../../scripts/python-tests.ts';
import { ensurePythonTools, installInto, PYTHON } from '../../scripts/python-tools.ts';
import { buildPythonPackage } from '../../scripts/release/python-package.ts';
import { sharedService, type TestService } from '../support/service.ts';

const packages = findPythonPackages();
const skip = packages === undefined && 'no python-node template is built: run `npm test -- prepare`';

describe('the SDK for Python', { skip }, () => {
  let service: TestService;
  before(async () => {
    service = await sharedService();
  });
  after(() => service.close());

  it('the SDK for Python does with a service what its tests and the examples of its documentation say', async (context) => {
    const env = {
      PATH: process.env.PATH,
      HOME: '/nonexistent',
      PYTHONDONTWRITEBYTECODE: '1',
      PYTHONPATH: `${ensurePythonTools(CACHE_DIR)}:${join(SDK_PYTHON, 'src')}`,
      CLOCHE_URL: service.url,
      CLOCHE_API_KEY: service.apiKey,
    };
    const { tests, output } = await runPythonTests(join(SDK_PYTHON, 'tests/e2e'), env);
    assert.ok(tests.length > 0, output);
    for (const { group, title, status, details } of tests) {
      await context.test(`${group}: ${title}`, { skip: status === 'skipped' && details }, () =>
        assert.equal(status, 'passed', details),
      );
    }
  });

  it('the SDK for Python does what its README says when its wheel is installed into an empty environment', () => {
    const folder = mkdtempSync(join(tmpdir(), 'cloche-python-wheel-'));
    try {
      const { wheel } = buildPythonPackage(folder);
      const python = join(folder, 'venv/bin/python');
      execFileSync(PYTHON, ['-m', 'venv', '--without-pip', join(folder, 'venv')]);
      installInto(python, CACHE_DIR, wheel.file);
      const readme = readFileSync(join(SDK_PYTHON, 'README.md'), 'utf8');
      const examples = [...readme.matchAll(/^```python\n(.*?)^```/gms)].map(([, example = '']) => example);
      const env = { PATH: process.env.PATH, CLOCHE_URL: service.url, CLOCHE_API_KEY: service.apiKey };
      const printed = examples.map((each) =>
        execFileSync(python, ['-I', '-c', each], { cwd: folder, env, encoding: 'utf8' }),
      );
      const [first = ''] = /(?<=^```python\n).*?(?=^```)/ms.exec(readFileSync('README.md', 'utf8')) ?? [];
      assert.match(execFileSync(python, ['-I', '-c', first], { cwd: folder, env, encoding: 'utf8' }), /^mean +2\.0$/m);
      assert.deepEqual(printed, ['42\n', '0\n1\n2\n3\n', 'at most 3600000 ms\n']);
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  });
});
