/** Holds the Model Context Protocol to its official client for Python. */
import assert from 'node:assert/strict';
import { resolve } from 'node:path';
import { after, before, it } from 'node:test';
import { runPythonClient } from '../support/python-client.ts';
import { sharedService, type TestService } from '../support/service.ts';

let service: TestService;
before(async () => {
  service = await sharedService();
});
after(() => service?.close());

it('the client for Python calls tools, gets images and progress, and cancels, over HTTP and on standard input', async () => {
  const said = await runPythonClient({
    requirements: resolve('requirements-mcp.txt'),
    args: [resolve('e2e/support/mcp_clients.py'), '--verbose'],
    env: {
      CLOCHE_URL: service.url,
      CLOCHE_API_KEY: service.apiKey,
      CLOCHE_COMMAND: JSON.stringify([process.execPath, resolve('packages/clients/cli/bin/cloche.mjs')]),
    },
  });
  assert.match(said, /^Ran 14 tests[\s\S]*^OK$/m);
});
