import assert from 'node:assert/strict';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { CACHE_DIR, findPythonPackages } from '../../packages/agent/src/testing/test-cache.ts';
import { SDK_PYTHON } from '../../scripts/python-sdk.ts';
import { runPythonTests } from '../../scripts/python-tests.ts';
import { ensurePythonTools } from '../../scripts/python-tools.ts';
import { sharedService, type TestService } from '../support/service.ts';

const packages = findPythonPackages();
const skip = packages === undefined && 'no python-node template is built: run `npm test -- prepare`';

describe('the SDK for Python', { skip }, () => {
  let service: TestService;
  before(async () => {
    service = await sharedService();
  });
  after(() => service.close());

  it('does with a service what its tests and the examples of its documentation say', async (context) => {
    const env = {
      PATH: process.env.PATH,
      HOME: '/nonexistent',
      PYTHONDONTWRITEBYTECODE: '1',
      PYTHONPATH: `${ensurePythonTools(CACHE_DIR, packages ?? '')}:${join(SDK_PYTHON, 'src')}`,
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
});
