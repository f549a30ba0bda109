import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { CACHE_DIR, findPythonPackages } from '../../packages/guest/agent/testing/test-cache.ts';
import { SDK_PYTHON } from '../../scripts/python-sdk.ts';
import { runPythonTests } from '../../scripts/python-tests.ts';
import { ensurePythonTools } from '../../scripts/python-tools.ts';
import { sharedService, type TestService } from '../support/service.ts';

const TESTS_MS = 600_000;
const packages = findPythonPackages();
const skip = packages === undefined && 'no python-node template is built: run `npm test -- prepare`';

describe('kernels of cloche.kernelspec', { skip }, () => {
  let service: TestService;
  let home: string;
  before(async () => {
    service = await sharedService();
    home = mkdtempSync(join(tmpdir(), 'cloche-kernelspec-'));
  });
  after(async () => {
    rmSync(home, { recursive: true, force: true });
    await service.close();
  });

  it('kernels of cloche.kernelspec do what the tests of Jupyter and of the bridge say', async (context) => {
    const requirements = [undefined, join(import.meta.dirname, '../../requirements-jupyter.txt')];
    const tools = requirements.map((file) => ensurePythonTools(CACHE_DIR, file));
    const env = {
      PATH: process.env.PATH,
      HOME: home,
      PYTHONDONTWRITEBYTECODE: '1',
      PYTHONPATH: [join(SDK_PYTHON, 'src'), ...tools].join(':'),
      CLOCHE_URL: service.url,
      CLOCHE_API_KEY: service.apiKey,
    };
    const { tests, output } = await runPythonTests(join(SDK_PYTHON, 'tests/kernelspec'), env, TESTS_MS);
    assert.ok(tests.length > 0, output);
    for (const { group, title, status, details } of tests) {
      await context.test(`${group}: ${title}`, { skip: status === 'skipped' && details }, () =>
        assert.equal(status, 'passed', details),
      );
    }
  });
});
