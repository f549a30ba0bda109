/** Holds the kernel gateway to Jupyter's own clients. `packages/server/src/compose/jupyter-gateway.test.ts` tests the rest. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { CACHE_DIR, findPythonPackages } from '../../packages/agent/src/testing/test-cache.ts';
import { JupyterClient } from '../../packages/server/testing/jupyter-client.ts';
import { ensurePythonTools, PYTHON } from '../../scripts/python-tools.ts';
import { type TestService, testService } from '../support/service.ts';

const ROOT = join(import.meta.dirname, '../..');
const PROGRAM = join(ROOT, 'e2e/support/jupyter_clients.py');

let service: TestService;
let jupyter: JupyterClient;
before(async () => {
  service = await testService();
  jupyter = new JupyterClient(service.url, service.apiKey);
});
after(() => service?.close());

it('nbclient and papermill run notebooks with text, plots, errors and parameters', async (t) => {
  const packages = findPythonPackages();
  assert.ok(packages, 'no python-node template is built');
  const home = mkdtempSync(join(tmpdir(), 'cloche-jupyter-'));
  const env = {
    PATH: process.env.PATH,
    HOME: home,
    PYTHONPATH: ensurePythonTools(CACHE_DIR, packages, join(ROOT, 'requirements-jupyter.txt')),
    PYTHONDONTWRITEBYTECODE: '1',
    JUPYTER_GATEWAY_URL: `${service.url}/jupyter`,
    JUPYTER_GATEWAY_AUTH_TOKEN: service.apiKey,
  };
  try {
    const { code, said } = await run(env);
    t.diagnostic(/^Ran \d+ tests.*$/m.exec(said)?.[0] ?? 'no test ran');
    assert.equal(code, 0, said);
    assert.match(said, /^OK$/m);
  } finally {
    rmSync(home, { recursive: true, force: true });
  }
});

function run(env: NodeJS.ProcessEnv): Promise<{ code: number; said: string }> {
  return new Promise((resolve) => {
    const child = execFile(PYTHON, [PROGRAM], { env, timeout: 400_000 }, (_error, stdout, stderr) => {
      resolve({ code: child.exitCode ?? 1, said: stdout + stderr });
    });
  });
}

describe('the API of the gateway', () => {
  it('lists a kernel spec for each language of each template, with a logo', async () => {
    const { body } = await jupyter.get('/api/kernelspecs');
    assert.equal(body.default, 'python3');
    assert.ok(body.kernelspecs.javascript && body.kernelspecs['javascript-node'], Object.keys(body.kernelspecs).join());
    const { name, spec } = (await jupyter.get('/api/kernelspecs/python3')).body;
    assert.deepEqual([name, spec.language], ['python3', 'python']);
    const logo = await fetch(service.url + body.kernelspecs.python3.resources['logo-svg']);
    assert.equal(logo.headers.get('content-type'), 'image/svg+xml');
    assert.equal((await jupyter.get('/api/kernelspecs/constructor')).status, 404);
    assert.deepEqual((await jupyter.get('/api/contents')).body.content, []);
  });

  it('starts a kernel in a sandbox of its own, and ends both', async () => {
    const { status, body: kernel } = await jupyter.post('/api/kernels', {
      name: 'python3',
      env: { KERNEL_COLOR: 'teal' },
    });
    assert.equal(status, 201);
    assert.deepEqual((await jupyter.get(`/api/kernels/${kernel.id}`)).body.name, 'python3');
    const listed = (await jupyter.get('/api/kernels')).body as { id: string }[];
    assert.ok(listed.some(({ id }) => id === kernel.id));
    await using channels = await jupyter.open(kernel.id);
    const { stdout } = await channels.execute('import os; print(os.environ["KERNEL_COLOR"])');
    assert.equal(stdout, 'teal\n');
    assert.equal((await jupyter.delete(`/api/kernels/${kernel.id}`)).status, 204);
    assert.equal(await channels.closed(), true);
    assert.equal((await jupyter.get(`/api/kernels/${kernel.id}`)).status, 404);
  });
});
