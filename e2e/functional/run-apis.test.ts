/** Holds the run APIs to SandboxFusion's own client, and to the documents of Piston and of Dify's sandbox. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { connect } from 'node:net';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { eventually } from '@cloche/testkit/eventually';
import { CACHE_DIR, findPythonPackages } from '../../packages/guest/agent/testing/test-cache.ts';
import { ensurePythonTools, PYTHON } from '../../scripts/python-tools.ts';
import { Api } from '../support/api.ts';
import { sharedService, type TestService } from '../support/service.ts';

const ROOT = join(import.meta.dirname, '../..');

let service: TestService;
before(async () => {
  service = await sharedService();
});
after(() => service?.close());

// biome-ignore lint/suspicious/noExplicitAny: each API has bodies of its own
type Answer = { status: number; body: any };

async function send(path: string, body?: unknown, headers: Record<string, string> = {}): Promise<Answer> {
  const response = await fetch(service.url + path, {
    method: body === undefined ? 'GET' : 'POST',
    headers: { 'x-api-key': service.apiKey, 'content-type': 'application/json', ...headers },
    ...(body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
  });
  const text = await response.text();
  return { status: response.status, body: text === '' ? undefined : JSON.parse(text) };
}

/** Sends the head and body of a request, and leaves after some milliseconds. */
async function leaveAfter(ms: number, path: string, body: object): Promise<void> {
  const text = JSON.stringify(body);
  const { hostname, port, host } = new URL(service.url);
  const socket = connect(Number(port), hostname).on('error', () => undefined);
  const head = [`POST ${path} HTTP/1.1`, `Host: ${host}`, `X-API-Key: ${service.apiKey}`];
  socket.write([...head, 'Content-Type: application/json', `Content-Length: ${text.length}`, '', text].join('\r\n'));
  await delay(ms);
  socket.destroy();
}

const liveSandboxes = async () => (await service.api.get('/v1/sandboxes')).body.data;

describe('SandboxFusion', () => {
  it('SandboxFusion serves its own Python client', async (t) => {
    const packages = findPythonPackages();
    assert.ok(packages, 'no python-node template is built');
    const { host } = new URL(service.url);
    const env = {
      PATH: process.env.PATH,
      HOME: '/nonexistent',
      PYTHONPATH: ensurePythonTools(CACHE_DIR, join(ROOT, 'requirements-run-apis.txt')),
      PYTHONDONTWRITEBYTECODE: '1',
      SANDBOX_FUSION_ENDPOINT: `http://key:${encodeURIComponent(service.apiKey)}@${host}/sandbox-fusion`,
    };
    const said = await new Promise<string>((resolve) => {
      const program = join(ROOT, 'e2e/support/sandbox_fusion_client.py');
      execFile(PYTHON, [program], { env, timeout: 240_000 }, (_error, stdout, stderr) => resolve(stdout + stderr));
    });
    t.diagnostic(/^Ran \d+ tests.*$/m.exec(said)?.[0] ?? 'no test ran');
    assert.match(said, /^OK$/m, said);
  });
});

describe('a client of a run API that leaves', () => {
  it('a client of a run API that leaves leaves no sandbox behind, whenever it leaves', async () => {
    const body = { code: 'import time; time.sleep(60)', language: 'python', run_timeout: 300 };
    const before = (await liveSandboxes()).length;
    for (let ms = 0; ms < 40; ms += 2) await leaveAfter(ms, '/sandbox-fusion/run_code', body);
    await eventually(async () => (await liveSandboxes()).length <= before, { because: 'no sandbox of theirs is left' });
  });
});

describe('Piston', () => {
  // The usual limit of three seconds is short for a busy machine.
  const execute = (body: object) => send('/piston/api/v2/execute', { run_timeout: 60_000, ...body });

  it('Piston lists its runtimes and runs each in the version that it lists', async () => {
    const { body: runtimes } = await send('/piston/api/v2/runtimes');
    const languages = runtimes.map(({ language }: { language: string }) => language);
    assert.deepEqual(languages, ['python', 'javascript', 'typescript', 'bash']);
    const python = runtimes[0].version;
    const { status, body } = await execute({
      language: 'py',
      version: python,
      files: [{ content: 'import sys, platform; print(platform.python_version(), sys.argv[1:], input())' }],
      stdin: 'typed',
      args: ['1', 'two'],
    });
    assert.equal(status, 200);
    assert.deepEqual(body, {
      language: 'python',
      version: python,
      run: {
        stdout: `${python} ['1', 'two'] typed\n`,
        stderr: '',
        output: `${python} ['1', 'two'] typed\n`,
        code: 0,
        signal: null,
      },
    });
  });

  it('Piston takes several files, in their encodings, and the first one is the program', async () => {
    const { body } = await execute({
      language: 'javascript',
      version: '*',
      files: [
        {
          name: 'start.mjs',
          content: "import { said } from './lib/said.mjs'; console.log(said); console.error('late');",
        },
        {
          name: 'lib/said.mjs',
          content: Buffer.from('export const said = 6 * 7').toString('base64'),
          encoding: 'base64',
        },
      ],
    });
    assert.deepEqual([body.run.stdout, body.run.stderr, body.run.code], ['42\n', 'late\n', 0]);
    assert.equal(body.run.output.length, '42\nlate\n'.length);
  });

  it('Piston ends a program at its time limit with SIGKILL', async () => {
    const { body } = await execute({
      language: 'bash',
      version: '5.x',
      files: [{ content: 'echo begun; sleep 600' }],
      // On a busy machine a shell takes a second to begin.
      run_timeout: 5_000,
    });
    assert.deepEqual([body.run.stdout, body.run.code, body.run.signal], ['begun\n', null, 'SIGKILL']);
  });

  it('Piston runs a program whose optional fields are null or empty, as its clients write them', async () => {
    for (const empty of [null, ''] as const) {
      const { status, body } = await send('/piston/api/v2/execute', {
        language: 'bash',
        version: '*',
        files: [{ name: empty, content: 'echo ok', encoding: null }],
        stdin: empty,
        args: null,
        run_timeout: 60_000,
        compile_timeout: null,
        run_memory_limit: null,
      });
      assert.deepEqual([status, body.run?.stdout], [200, 'ok\n'], JSON.stringify(body));
    }
  });

  it('Piston refuses unknown languages, versions and bodies in its own form', async () => {
    const file = [{ content: '1' }];
    for (const [body, message] of [
      [{ language: 'cobol', version: '*', files: file }, /cobol runtime is unknown; use python/],
      [{ language: 'python', version: '2.x', files: file }, /python-2\.x runtime is unknown; the version here is 3\./],
      [{ language: 'python', version: '*', files: [] }, /files/],
      ['{"half', /JSON/],
    ] as const) {
      const { status, body: refusal } = await send('/piston/api/v2/execute', body);
      assert.equal(status, 400);
      assert.match(refusal.message, message);
    }
  });

  it('Piston gives programs no network', async () => {
    const { body } = await execute({
      language: 'bash',
      version: '*',
      files: [{ content: 'ls /sys/class/net' }],
    });
    assert.equal(body.run.stdout, 'lo\n');
  });
});

describe('Dify’s sandbox', () => {
  const run = (body: object) => send('/dify/v1/sandbox/run', body);

  it('Dify’s sandbox runs Python and JavaScript, with a network only on request', async () => {
    assert.deepEqual((await send('/dify/health')).body, 'ok');
    const { status, body } = await run({
      language: 'python3',
      code: 'print(6 * 7)',
      preload: null,
      enable_network: null,
    });
    const data = { stdout: '42\n', stderr: '', error: '', exit_code: 0 };
    assert.deepEqual([status, body], [200, { code: 0, message: 'success', data }]);
    const links = "console.log(require('fs').readdirSync('/sys/class/net').length)";
    assert.equal((await run({ language: 'nodejs', code: links })).body.data.stdout, '1\n');
    assert.equal((await run({ language: 'nodejs', code: links, enable_network: true })).body.data.stdout, '2\n');
  });

  it('Dify’s sandbox reports a failed program with its exit code, and refusals in its own form', async () => {
    const { body } = await run({ language: 'python3', code: '1 / 0' });
    assert.equal(body.data.exit_code, 1);
    assert.match(body.data.error, /^process exited with code 1\nTraceback.*ZeroDivisionError/s);
    assert.deepEqual(
      [(await run({ language: 'ruby', code: '1' })).body.code, (await run({ language: 'python3' })).body.code],
      [-400, -400],
    );
  });
});

describe('every run API', () => {
  const requests = {
    '/dify/v1/sandbox/run': { language: 'python3', code: 'print(1)' },
    '/piston/api/v2/execute': { language: 'python', version: '*', files: [{ content: 'print(1)' }] },
    '/sandbox-fusion/run_code': { language: 'python', code: 'print(1)' },
  };

  it('every run API refuses requests without a key, with a wrong one, and with one that may not create sandboxes', async () => {
    const reading = await service.createKey({ scopes: ['sandbox:read'] });
    for (const [path, body] of Object.entries(requests)) {
      assert.equal((await send(path, body, { 'x-api-key': '' })).status, 401, path);
      assert.equal((await send(path, body, { 'x-api-key': 'wrong' })).status, 401, path);
      const refused = await send(path, body, { 'x-api-key': reading });
      assert.ok(refused.status === 403 || refused.body.code === -403, path);
    }
  });

  it('every run API holds to the quota of the key’s project, and says when to try again', async () => {
    const org = await service.createOrg('run-apis');
    const key = await service.createKey({ org, scopes: ['*'] });
    const api = new Api(service.url, key);
    const { data } = (await api.get('/v1/projects')).body;
    await api.request('PATCH', `/v1/projects/${data[0].id}`, { body: { quotas: { liveSandboxes: 1 } } });
    await api.post('/v1/sandboxes', {});
    for (const [path, body] of Object.entries(requests)) {
      const { status } = await send(path, body, { 'x-api-key': key });
      assert.equal(status, path.startsWith('/dify') ? 503 : 429, path);
    }
    assert.deepEqual((await api.get('/v1/sandboxes')).body.data.length, 1);
  });

  it('every run API leaves no sandbox, also when its client goes away', async () => {
    const code = 'import time; time.sleep(600)';
    const lasting = {
      '/dify/v1/sandbox/run': { language: 'python3', code },
      '/piston/api/v2/execute': { language: 'python', version: '*', files: [{ content: code }], run_timeout: 600_000 },
      '/sandbox-fusion/run_code': { language: 'python', code, run_timeout: 600 },
    };
    const running = () =>
      liveSandboxes().then((all) => all.some(({ status }: { status: string }) => status === 'running'));
    for (const [path, body] of Object.entries(lasting)) {
      const gone = new AbortController();
      const sent = fetch(service.url + path, {
        method: 'POST',
        headers: { 'x-api-key': service.apiKey, 'content-type': 'application/json' },
        body: JSON.stringify(body),
        signal: gone.signal,
      });
      await eventually(running, { because: `the program of ${path} runs` });
      gone.abort();
      await assert.rejects(sent);
      await eventually(async () => (await liveSandboxes()).length === 0, { because: `${path} leaves no sandbox` });
    }
  });

  it('every run API refuses a body that is too large', async () => {
    const code = 'x'.repeat(17 * 1024 * 1024);
    const { status } = await send('/sandbox-fusion/run_code', { language: 'python', code });
    assert.equal(status, 413);
  });
});
