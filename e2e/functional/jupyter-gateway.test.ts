/** Holds the kernel gateway to Jupyter's own clients. `packages/gateways/jupyter/src/jupyter-gateway.test.ts` tests the rest. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { CACHE_DIR, findPythonPackages } from '../../packages/guest/agent/testing/test-cache.ts';
import { JupyterClient, type KernelChannels } from '../../packages/service/server/testing/jupyter-client.ts';
import { ensurePythonTools, PYTHON } from '../../scripts/python-tools.ts';
import { sharedService, type TestService } from '../support/service.ts';

const ROOT = join(import.meta.dirname, '../..');
const PROGRAM = join(ROOT, 'e2e/support/jupyter_clients.py');

let service: TestService;
let jupyter: JupyterClient;
before(async () => {
  service = await sharedService();
  jupyter = new JupyterClient(service.url, service.apiKey);
});
after(() => service?.close());

it('nbclient and papermill run notebooks with text, plots, widgets, input, errors, interrupts and parameters', async (t) => {
  const packages = findPythonPackages();
  assert.ok(packages, 'no python-node template is built');
  const { id: sandboxId } = await service.api.readySandbox();
  const home = mkdtempSync(join(tmpdir(), 'cloche-jupyter-'));
  const env = {
    PATH: process.env.PATH,
    HOME: home,
    PYTHONPATH: ensurePythonTools(CACHE_DIR, join(ROOT, 'requirements-jupyter.txt')),
    PYTHONDONTWRITEBYTECODE: '1',
    JUPYTER_GATEWAY_URL: `${service.url}/jupyter`,
    JUPYTER_GATEWAY_AUTH_TOKEN: service.apiKey,
    KERNEL_WITH_WIDGETS: `python3@${sandboxId}`,
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
  it('the API of the gateway lists a kernel spec for each language of each template, with a logo', async () => {
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

  it('a channel of the gateway stays open over a pause, and the next cell wakes the sandbox with its variables', async () => {
    const { id } = await service.api.readySandbox();
    const { body: kernel } = await jupyter.post('/api/kernels', { name: `python3@${id}` });
    await using channels = await jupyter.open(kernel.id);
    await channels.execute('kept = list(range(100))');
    for (let pause = 0; pause < 3; pause += 1) {
      await service.api.post(`/v1/sandboxes/${id}/pause`, {});
      const before = channels.messages.length;
      const { stdout, reply } = await channels.execute('for line in kept: print(line)');
      assert.equal(reply.status, 'ok');
      assert.deepEqual(stdout.split('\n'), [...Array.from({ length: 100 }, (_, line) => String(line)), '']);
      const states = channels.messages.slice(before).map(({ content }) => content.execution_state);
      assert.deepEqual(states.filter(Boolean), ['busy', 'idle'], 'the kernel is the same');
    }
    const { resumed, paused } = (await service.api.get(`/v1/sandboxes/${id}`)).body.sandbox;
    assert.deepEqual([resumed.by, paused], ['operation', undefined]);
    await service.api.delete(`/v1/sandboxes/${id}`);
  });

  it('the API of the gateway starts a kernel in a sandbox of its own, and ends both', async () => {
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

describe('a Python kernel in a sandbox', () => {
  let channels: KernelChannels;
  let kernelId: string;
  before(async () => {
    kernelId = (await jupyter.post('/api/kernels', { name: 'python3' })).body.id;
    channels = await jupyter.open(kernelId);
  });
  after(async () => {
    await channels?.cut();
    await jupyter.delete(`/api/kernels/${kernelId}`);
  });

  it('a Python kernel in a sandbox tells its version, and answers what clients ask about code', async () => {
    const { language_info } = await channels.ask('kernel_info_request');
    assert.match(language_info.version, /^3\.\d+\.\d+/);
    await channels.execute('import json\nvalue_of_tests = 1');
    const { matches } = await channels.ask('complete_request', { code: 'value_of_te', cursor_pos: 11 });
    assert.deepEqual(matches, ['value_of_tests']);
    const inspected = await channels.ask('inspect_request', { code: 'json.dumps', cursor_pos: 10, detail_level: 0 });
    assert.match(inspected.data['text/plain'], /Serialize/);
    assert.equal((await channels.ask('is_complete_request', { code: 'for n in x:' })).status, 'incomplete');
    const { history } = await channels.ask('history_request', { hist_access_type: 'tail', n: 1 });
    assert.equal(history[0][2], 'import json\nvalue_of_tests = 1');
  });

  it('a Python kernel in a sandbox counts cells as the clients ask, and evaluates their expressions', async () => {
    const { reply } = await channels.execute('x = 20', { user_expressions: { y: 'x + 1' } });
    assert.deepEqual(reply.user_expressions.y.data, { 'text/plain': '21' });
    const stored = await channels.execute('1', { store_history: false });
    assert.equal(stored.reply.execution_count, reply.execution_count);
  });

  it('a Python kernel in a sandbox reads a line of input, and is interrupted while it waits for one', async () => {
    const cell = channels.execute('print("Hello", input("Name? "))', { allow_stdin: true });
    const { content } = await channels.received(({ channel }) => channel === 'stdin');
    assert.equal(content.prompt, 'Name? ');
    channels.send('input_reply', { value: 'Ada' }, 'stdin');
    assert.equal((await cell).stdout, 'Hello Ada\n');
    const waiting = channels.execute('input("Again? ")', { allow_stdin: true });
    await channels.received(({ content }) => content.prompt === 'Again? ');
    await channels.ask('interrupt_request', {}, 'control');
    assert.equal((await waiting).reply.ename, 'KeyboardInterrupt');
  });

  it('updates what it has displayed', async () => {
    const code =
      'from IPython.display import display, clear_output\nhandle = display(1, display_id="d")\nhandle.update(2)\nclear_output()';
    const { types } = await channels.execute(code);
    assert.deepEqual(types.slice(2, -1), ['display_data', 'update_display_data', 'clear_output']);
  });

  it('a Python kernel in a sandbox shows plots and tables in forms that Jupyter has', async () => {
    const from = channels.messages.length;
    await channels.execute('import matplotlib.pyplot as plt; plt.plot([1, 2]); plt.show()');
    await channels.execute('import pandas as pd; pd.DataFrame({"a": [1]})');
    const shown = channels.messages.slice(from).flatMap(({ content }) => Object.keys(content.data ?? {}));
    assert.deepEqual([...new Set(shown)].sort(), ['image/png', 'text/html', 'text/plain']);
  });

  it('restarts and ends by messages', async () => {
    assert.equal((await channels.ask('shutdown_request', { restart: true }, 'control')).restart, true);
    assert.equal((await channels.execute('value_of_tests')).reply.ename, 'NameError');
    assert.equal((await channels.ask('shutdown_request', { restart: false }, 'control')).status, 'ok');
    assert.equal(await channels.closed(), true);
    assert.equal((await jupyter.get(`/api/kernels/${kernelId}`)).status, 404);
  });
});

for (const name of ['javascript', 'typescript']) {
  it(`a kernel of ${name} in a sandbox answers what clients ask about code, cells and expressions`, async () => {
    const { id } = (await jupyter.post('/api/kernels', { name })).body;
    try {
      await using channels = await jupyter.open(id);
      const { reply } = await channels.execute('const folder = { path: "/a" };\nfunction add(a, b) { return a + b; }');
      assert.equal(reply.status, 'ok');
      const completed = await channels.ask('complete_request', { code: 'folder.pa', cursor_pos: 9 });
      assert.deepEqual([completed.matches, completed.cursor_start, completed.cursor_end], [['path'], 7, 9]);
      const inspected = await channels.ask('inspect_request', { code: 'add', cursor_pos: 3, detail_level: 0 });
      assert.equal(inspected.data['text/plain'], 'Type: function\nfunction add(a, b)');
      assert.match((await channels.ask('kernel_info_request')).language_info.version, /^\d+\.\d+\.\d+$/);
      const next = await channels.execute('folder.path');
      assert.deepEqual([next.result?.['text/plain'], next.reply.execution_count], ["'/a'", reply.execution_count + 1]);
      const asked = await channels.execute('let n = 20', { user_expressions: { more: 'n + 1', none: 'missing' } });
      const { more, none } = asked.reply.user_expressions;
      assert.deepEqual([more.data['text/plain'], none.ename], ['21', 'ReferenceError']);
      const alone = await channels.execute('', { user_expressions: { n: 'n' } });
      assert.equal(alone.reply.user_expressions.n.data['text/plain'], '20');
      assert.equal(alone.reply.execution_count, next.reply.execution_count + 1);
      assert.equal((await channels.ask('is_complete_request', { code: 'add(' })).status, 'incomplete');
      const { history } = await channels.ask('history_request', { hist_access_type: 'tail', n: 1 });
      assert.deepEqual(history, [[1, alone.reply.execution_count, 'let n = 20']]);
    } finally {
      await jupyter.delete(`/api/kernels/${id}`);
    }
  });
}
