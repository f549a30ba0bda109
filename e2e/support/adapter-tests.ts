import { join, resolve } from 'node:path';
import { SDK_PYTHON } from '../../scripts/python-sdk.ts';
import { runPythonClient } from './python-client.ts';
import type { TestService } from './service.ts';

/** Runs the tests of an adapter in Python with a service. Returns what pytest printed. Throws if a test fails. */
export function runAdapterTests(adapter: string, { url, apiKey }: TestService): Promise<string> {
  const folder = resolve('adapters', adapter);
  return runPythonClient({
    requirements: join(folder, 'requirements-test.txt'),
    args: ['-m', 'pytest', '-p', 'no:cacheprovider', '--quiet', '--color=no', '-rxs', join(folder, 'tests')],
    modules: [join(folder, 'src'), join(SDK_PYTHON, 'src')],
    env: { CLOCHE_URL: url, CLOCHE_API_KEY: apiKey },
  });
}
