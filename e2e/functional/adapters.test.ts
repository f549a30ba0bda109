/** Holds the adapters for other programs to the test suites of those programs, with real sandboxes. */
import assert from 'node:assert/strict';
import { join, resolve } from 'node:path';
import { after, before, it } from 'node:test';
import { SDK_PYTHON } from '../../scripts/python-sdk.ts';
import { runPythonClient } from '../support/python-client.ts';
import { sharedService, type TestService } from '../support/service.ts';

let service: TestService;
before(async () => {
  service = await sharedService();
});
after(() => service?.close());

/** Runs the tests of an adapter in Python. Returns what pytest printed. */
function pytest(adapter: string): Promise<string> {
  const folder = resolve('adapters', adapter);
  return runPythonClient({
    requirements: join(folder, 'requirements-test.txt'),
    args: ['-m', 'pytest', '-p', 'no:cacheprovider', '--quiet', '--color=no', '-rxs', join(folder, 'tests')],
    modules: [join(folder, 'src'), join(SDK_PYTHON, 'src')],
    env: { CLOCHE_URL: service.url, CLOCHE_API_KEY: service.apiKey },
  });
}

it('the adapter for deepagents passes the sandbox tests of LangChain', async () => {
  assert.match(await pytest('deepagents'), /^\d+ passed, 7 xfailed(, \d+ warnings?)? in/m);
});

it('the adapter for Inspect passes the self check of Inspect', async () => {
  assert.match(await pytest('inspect'), /^\d+ passed, 1 xfailed(, \d+ warnings?)? in/m);
});
