import assert from 'node:assert/strict';
import { once } from 'node:events';
import { chmod, mkdir, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { failing, json, type Script, sampleContext, sampleSandbox, startScriptedServer } from '@cloche/sdk/testing';
import { runCloche } from '../testing/run-cloche.ts';
import { runInProcess } from '../testing/run-in-process.ts';

async function startService(script: Script) {
  const server = await startScriptedServer(script);
  return Object.assign(server, { env: { CLOCHE_URL: server.url, CLOCHE_API_KEY: 'clk_test' } });
}

describe('cloche', () => {
  let home: string;
  before(async () => {
    home = await mkdtemp(join(tmpdir(), 'cloche-cli-'));
  });
  after(() => rm(home, { recursive: true }));

  it('cloche suggests the nearest command and exits with 2 where the command line is wrong', async () => {
    const { exitCode, stderr } = await runCloche(['sandbox', 'lst']);
    assert.equal(exitCode, 2);
    assert.equal(
      stderr,
      "error: Unknown command 'lst'. Did you mean list? Run `cloche sandbox --help` for its usage.\n",
    );
    assert.equal((await runCloche([])).exitCode, 0);
    assert.equal((await runCloche(['sandbox', 'get'])).exitCode, 2);
  });

  it('cloche says what is wrong with the command line as JSON with --json', async () => {
    for (const [args, message] of [
      [['exec'], /^Missing required argument 'sandbox'\. Run `cloche exec --help`/],
      [['run', '-'], /^Standard input is empty;/],
      [['sandbox', 'create', '--ttl', '5'], /'5' is invalid\. Write it as 90s, 10m or 1h30m\. Run/],
    ] as const) {
      const { exitCode, stdout, stderr } = await runCloche([...args, '--json']);
      const { error } = JSON.parse(stderr);
      assert.deepEqual([exitCode, stdout, error.code], [2, '', 'usage']);
      assert.match(error.message, message);
    }
  });

  it('cloche keeps compiled code in a folder of its user, and none where others could write it', async () => {
    const env = { HOME: home, TMPDIR: join(home, 'tmp'), XDG_CACHE_HOME: '', NODE_COMPILE_CACHE: '' };
    await mkdir(env.TMPDIR);
    assert.equal((await runCloche(['--version'], { env })).exitCode, 0);
    assert.deepEqual(await readdir(env.TMPDIR), []);
    assert.equal((await readdir(join(home, '.cache', 'cloche'))).length, 1);
  });

  it('cloche shows examples in its help', async () => {
    const { exitCode, stdout } = await runCloche(['run', '--help']);
    assert.equal(exitCode, 0);
    assert.match(stdout, /Examples:\n {2}cloche run script\.py/);
  });

  it('cloche takes address and key from flag, then environment, then file', async () => {
    await using service = await startService(() => json(200, { data: [], hasMore: false }));
    await mkdir(join(home, '.config', 'cloche'), { recursive: true });
    const file = join(home, '.config', 'cloche', 'config.json');
    await writeFile(file, JSON.stringify({ url: service.url, apiKey: 'from-file' }));
    await chmod(file, 0o600);

    await runCloche(['sandbox', 'list'], { env: { HOME: home } });
    await runCloche(['sandbox', 'list'], { env: { HOME: home, CLOCHE_API_KEY: 'from-env' } });
    await runCloche(['sandbox', 'list', '--api-key', 'from-flag'], { env: { HOME: home, CLOCHE_API_KEY: 'from-env' } });
    await runCloche(['--api-key', 'from-front', 'sandbox', 'list'], { env: { HOME: home } });
    assert.deepEqual(
      service.requests.map(({ headers }) => headers.authorization),
      ['Bearer from-file', 'Bearer from-env', 'Bearer from-flag', 'Bearer from-front'],
    );
  });

  it('says in one sentence that no key is known, and that nothing answers', async () => {
    const keyless = await runCloche(['sandbox', 'list']);
    assert.equal(keyless.exitCode, 1);
    assert.match(keyless.stderr, /^error: The API key is missing; pass --api-key[^\n]*npm start[^\n]*\n$/);

    const nowhere = await runCloche(['sandbox', 'list', '--url', 'http://127.0.0.1:9', '--api-key', 'k']);
    assert.equal(nowhere.exitCode, 1);
    assert.match(
      nowhere.stderr,
      /^error: Cloche cannot be reached at http:\/\/127\.0\.0\.1:9 [^\n]*npm start[^\n]*\n$/,
    );
  });

  it('cloche passes on what the service refuses, as JSON with --json', async () => {
    await using service = await startService(() => failing('not_found'));
    const plain = await runCloche(['sandbox', 'get', 'sbx_9'], service);
    assert.deepEqual(plain, {
      exitCode: 1,
      stdout: '',
      stderr:
        'error: There is no such resource, or it belongs to another organization. Check the id, and with `cloche whoami` the key.\n',
    });
    const asJson = await runCloche(['sandbox', 'get', 'sbx_9', '--json'], service);
    assert.equal(JSON.parse(asJson.stderr).error.code, 'not_found');
    assert.equal(asJson.stdout, '');
  });
});

describe('cloche sandbox', () => {
  it('cloche sandbox prints the id of a new one alone to standard output', async () => {
    await using service = await startService(({ method }) =>
      json(method === 'POST' ? 201 : 200, {
        sandbox: sampleSandbox({ status: method === 'POST' ? 'creating' : 'idle' }),
      }),
    );
    const args = ['--ttl', '10m', '--env', 'A=b=c', '--env', 'D=', '--metadata', 'team=blue', '--memory', '512'];
    const { stdout, stderr } = await runInProcess(['sandbox', 'create', ...args], service);
    assert.equal(stdout, 'sbx_1\n');
    assert.match(stderr, /^idle, python-node, ends in /);
    assert.deepEqual(service.requests[0]?.body, {
      ttlMs: 600_000,
      env: { A: 'b=c', D: '' },
      metadata: { team: 'blue' },
      resources: { memoryMb: 512 },
    });
    assert.match(service.requests[1]?.path ?? '', /waitFor=ready/);
  });

  it('cloche sandbox lists them in aligned columns without what could move the cursor', async () => {
    const expiresAt = new Date(Date.now() + 3_599_000).toISOString();
    const createdAt = new Date(Date.now() - 61_000).toISOString();
    const data = [
      sampleSandbox({ id: 'sbx_long', status: 'ready', createdAt, expiresAt, metadata: { a: '\u001b[2Jx\ny' } }),
      sampleSandbox({ id: 'sbx_2', status: 'destroyed', createdAt }),
    ];
    await using service = await startService(() => json(200, { data, hasMore: false }));
    const { stdout } = await runInProcess(['sandbox', 'list', '--all', '--metadata', 'a=b'], service);
    assert.deepEqual(stdout.split('\n'), [
      'ID        STATUS     TEMPLATE     NETWORK       CREATED    LEFT  METADATA',
      'sbx_long  ready      python-node  unrestricted  1 min ago  1 h   a=x y',
      'sbx_2     destroyed  python-node  unrestricted  1 min ago  -',
      '',
    ]);
    assert.equal(service.requests[0]?.path, '/v1/sandboxes?include=historical&metadata.a=b');

    const asJson = await runInProcess(['sandbox', 'list', '--json'], service);
    assert.deepEqual(JSON.parse(asJson.stdout), { data, hasMore: false });
  });

  it('cloche sandbox gives more time and kills, each of several', async () => {
    await using service = await startService(({ path }) =>
      path.endsWith('/sbx_9') ? failing('not_found') : json(200, { sandbox: sampleSandbox({ status: 'destroyed' }) }),
    );
    await runInProcess(['sandbox', 'ttl', 'sbx_1', '1h30m'], service);
    assert.deepEqual(service.requests[0]?.body, { ttlMs: 5_400_000 });
    const { exitCode, stderr } = await runInProcess(['sandbox', 'kill', 'sbx_9', 'sbx_1'], service);
    assert.equal(exitCode, 1);
    assert.match(stderr, /sbx_1 destroyed/);
    assert.match(stderr, /error: There is no such resource/);
  });
});

describe('cloche context', () => {
  it('cloche context creates, lists, interrupts, restarts and deletes', async () => {
    const context = sampleContext({ createdAt: new Date(Date.now() - 10_890_000).toISOString() });
    await using service = await startService(({ method, path }) =>
      method === 'GET' && path.endsWith('/contexts') ? json(200, { data: [context] }) : json(200, { context }),
    );
    const made = await runInProcess(
      ['context', 'create', 'sbx_1', '-l', 'typescript', '--cwd', '/workspace/a'],
      service,
    );
    assert.equal(made.stdout, 'cctx_1\n');
    assert.deepEqual(service.requests[0]?.body, { language: 'typescript', cwd: '/workspace/a' });
    const listed = await runInProcess(['context', 'list', 'sbx_1'], service);
    assert.match(listed.stdout, /\ncctx_1 {2}python {4}no {7}3 h 1 min ago {2}\/workspace\n/);
    for (const [verb, done] of [
      ['interrupt', 'interrupted'],
      ['restart', 'restarted'],
      ['delete', 'deleted'],
    ] as const) {
      const { stderr } = await runInProcess(['context', verb, 'sbx_1', 'cctx_1'], service);
      assert.equal(stderr, `cctx_1 ${done}\n`);
    }
  });
});

describe('cloche admin', { skip: process.getuid?.() === 0 ? false : 'the operator is root' }, () => {
  it('cloche admin speaks to the socket of the installation that the environment names', async () => {
    const runDir = await mkdtemp(join(tmpdir(), 'cloche-run-'));
    await mkdir(join(runDir, 'server'));
    const bodies: unknown[] = [];
    const server = createServer(async (request, response) => {
      let body = '';
      for await (const chunk of request) body += chunk;
      bodies.push([`${request.method} ${request.url}`, body === '' ? undefined : JSON.parse(body)]);
      const key = { id: 'key_1', orgId: 'org_1', scopes: ['code:run'], secret: 'clk_secret' };
      response.setHeader('content-type', 'application/json');
      response.end(JSON.stringify(request.url?.startsWith('/keys') ? { key } : { destroyed: 3 }));
    });
    await new Promise<void>((resolve) => server.listen(join(runDir, 'server', 'operator.sock'), resolve));
    const env = { CLOCHE_RUN_DIR: runDir };
    const args = ['admin', 'key', 'create', '--org', 'acme', '--scopes', 'code:run', '--projects', 'prj_1,prj_2'];
    const created = await runInProcess([...args, '--expires', '30d'], { env });
    const revoked = await runInProcess(['admin', 'key', 'revoke', 'key_1'], { env });
    const destroyed = await runInProcess(['admin', 'destroy-all', '--json'], { env });
    await new Promise((resolve) => server.close(resolve));
    await rm(runDir, { recursive: true });

    assert.equal(revoked.stdout, 'key_1\n');
    assert.equal(created.stdout, 'clk_secret\n');
    assert.deepEqual(JSON.parse(destroyed.stdout), { destroyed: 3 });
    assert.deepEqual(bodies, [
      ['POST /keys', { org: 'acme', scopes: ['code:run'], projectIds: ['prj_1', 'prj_2'], expiresInMs: 2_592_000_000 }],
      ['POST /keys/key_1/revoke', undefined],
      ['POST /destroy-all', undefined],
    ]);
  });

  it('cloche admin passes on what the installation refuses, and counts in words', async () => {
    const runDir = await mkdtemp(join(tmpdir(), 'cloche-run-'));
    await mkdir(join(runDir, 'server'));
    const refusal = { code: 'not_found', message: 'There is no organization "nobody".', requestId: 'req_1' };
    const server = createServer((request, response) => {
      response.statusCode = request.url === '/keys' ? 404 : 200;
      response.end(JSON.stringify(request.url === '/keys' ? { error: refusal } : { destroyed: 1 }));
    });
    await new Promise<void>((resolve) => server.listen(join(runDir, 'server', 'operator.sock'), resolve));
    const env = { CLOCHE_RUN_DIR: runDir };
    const args = ['admin', 'key', 'create', '--org', 'nobody', '--scopes', 'code:run', '--json'];
    const refused = await runInProcess(args, { env });
    const destroyed = await runInProcess(['admin', 'destroy-all'], { env });
    await new Promise((resolve) => server.close(resolve));
    await rm(runDir, { recursive: true });

    assert.deepEqual(JSON.parse(refused.stderr), { error: refusal });
    assert.equal(destroyed.stdout, '1 sandbox destroyed\n');
  });

  it('cloche admin says where it looked when no installation is there or none runs', async () => {
    const none = await runInProcess(['admin', 'gc'], { env: { CLOCHE_DATA_DIR: '/nonexistent/data' } });
    assert.match(none.stderr, /^error: There is no installation in \/nonexistent\/data; [^\n]*npm start[^\n]*\n$/);
    const stopped = await runInProcess(['admin', 'gc'], { env: { CLOCHE_RUN_DIR: '/nonexistent/run' } });
    assert.match(stopped.stderr, /^error: No Cloche answers at \/nonexistent\/run\/server\/operator\.sock; /);
    assert.equal(stopped.exitCode, 1);
  });

  it('cloche admin refuses a scope that does not exist', async () => {
    const { exitCode, stderr } = await runInProcess(['admin', 'key', 'create', '--scopes', 'code:walk']);
    assert.equal(exitCode, 2);
    assert.match(stderr, /There is no scope code:walk; use \* or any of: sandbox:create /);
  });
});

describe('cloche config', () => {
  it('cloche config shows where each setting comes from and no secret', async () => {
    const env = { CLOCHE_API_KEY: 'clk_very_secret', CLOCHE_PORT: '4999' };
    const { stdout } = await runInProcess(['config'], { env });
    assert.match(stdout, /CLOCHE_PORT +4999 +environment/);
    assert.doesNotMatch(stdout, /very_secret/);
    const { data } = JSON.parse((await runInProcess(['config', '--json'], { env })).stdout);
    assert.ok(data.length > 5);
  });

  it('cloche config names the file that the address and the key of the command line come from', async () => {
    const home = await mkdtemp(join(tmpdir(), 'cloche-cli-'));
    const file = join(home, '.config', 'cloche', 'config.json');
    await mkdir(join(home, '.config', 'cloche'), { recursive: true });
    await writeFile(file, JSON.stringify({ url: 'http://127.0.0.1:4999', apiKey: 'clk_very_secret' }));
    const { stdout } = await runInProcess(['config', '--json'], { env: { HOME: home } });
    await rm(home, { recursive: true });
    const { data } = JSON.parse(stdout) as { data: { name: string; value: string; source: string }[] };
    const shown = (name: string) => data.find((setting) => setting.name === name);
    assert.equal(shown('CLOCHE_URL')?.value, 'http://127.0.0.1:4999');
    assert.equal(shown('CLOCHE_API_KEY')?.value, '(redacted)');
    assert.equal(shown('CLOCHE_API_KEY')?.source, file);
  });
});

describe('a refused request', () => {
  it('a refused request prints the message of the service, once', async () => {
    const issues = ['ttlMs', 'metadata'].map((name) => ({ path: `body.${name}`, message: 'is wrong' }));
    const message = issues.map((issue) => `${issue.path} ${issue.message}`).join('; ');
    const refuse = () =>
      json(400, { error: { code: 'invalid_request', message, requestId: 'req_1', details: { issues } } });
    await using service = await startService(refuse);
    const { stderr } = await runInProcess(['sandbox', 'create'], { env: service.env });
    assert.equal(stderr, 'error: --ttl is wrong; --metadata is wrong\n');
  });
});

describe('cloche doctor', () => {
  it('cloche doctor gives each finding a status, with a remedy where something is amiss', async () => {
    const { data } = JSON.parse((await runCloche(['doctor', '--json'])).stdout);
    assert.ok(data.length > 5);
    for (const { status, remedy } of data) assert.equal(status === 'ok', remedy === '');
  });

  it('cloche doctor says what to do below the table, in a line of its own', async () => {
    const taken = createServer().listen(0, '127.0.0.1');
    await once(taken, 'listening');
    const port = String((taken.address() as AddressInfo).port);
    const { stdout } = await runCloche(['doctor'], { env: { CLOCHE_PORT: port } });
    taken.close();
    assert.match(stdout, /^port +warning +\d+ is in use$/m);
    assert.match(stdout, /^port: .*CLOCHE_PORT/m);
  });
});
