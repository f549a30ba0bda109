import assert from 'node:assert/strict';
import { mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { failing, json, type Script, startScriptedServer } from '@cloche/sdk/testing';
import { runInProcess } from '../../testing/run-in-process.ts';

const apiKey = {
  id: 'key_1',
  orgId: 'org_1',
  name: 'ci',
  prefix: 'clk_12345678',
  scopes: ['code:run', 'file:read'],
  createdAt: '2026-01-01T00:00:00.000Z',
  createdBy: 'operator',
};
const current = {
  apiKey,
  organization: { id: 'org_1', name: 'acme', createdAt: '2026-01-01T00:00:00.000Z' },
  project: { id: 'prj_1', name: 'default', isDefault: true },
};

async function startService(script: Script) {
  const server = await startScriptedServer(script);
  return Object.assign(server, { env: { CLOCHE_URL: server.url, CLOCHE_API_KEY: 'clk_test' } });
}

describe('cloche key', () => {
  it('cloche key prints a new key alone to standard output', async () => {
    await using service = await startService(() => json(201, { apiKey, secret: 'clk_secret' }));
    const args = ['key', 'create', 'ci', '--scopes', 'code:run,file:read', '--projects', 'prj_1', '--expires', '1h'];
    const { stdout, stderr, exitCode } = await runInProcess(args, service);
    assert.deepEqual([exitCode, stdout], [0, 'clk_secret\n']);
    assert.match(stderr, /^key_1 \(ci\): code:run, file:read; the key is not shown again/);
    const { expiresAt, ...body } = Object(service.requests[0]?.body);
    assert.deepEqual(body, { name: 'ci', scopes: ['code:run', 'file:read'], projectIds: ['prj_1'] });
    assert.ok(Math.abs(Date.parse(expiresAt) - Date.now() - 3_600_000) < 60_000);
  });

  it('cloche key prints the successor of a rotated key, and as JSON with --json', async () => {
    await using service = await startService(() => json(201, { apiKey, secret: 'clk_next' }));
    assert.equal((await runInProcess(['key', 'rotate', 'key_1', '--grace', '0'], service)).stdout, 'clk_next\n');
    assert.deepEqual(service.requests[0]?.body, { graceMs: 0 });
    const { stdout } = await runInProcess(['key', 'rotate', 'key_1', '--json'], service);
    assert.deepEqual(JSON.parse(stdout), { apiKey, secret: 'clk_next' });
    assert.equal((await runInProcess(['key', 'rotate', 'key_1', '--grace', '8d'], service)).exitCode, 2);
  });

  it('cloche key lists, shows and revokes', async () => {
    await using service = await startService(({ method, path }) =>
      json(200, method === 'GET' && !path.includes('key_1') ? { data: [apiKey], hasMore: false } : { apiKey }),
    );
    assert.match(
      (await runInProcess(['key', 'list', '--all'], service)).stdout,
      /key_1 +ci +clk_12345678 +code:run, file:read/,
    );
    assert.equal(service.requests[0]?.path, '/v1/api-keys?include=revoked');
    assert.match((await runInProcess(['key', 'get', 'key_1'], service)).stdout, /projects +all/);
    assert.match((await runInProcess(['key', 'revoke', 'key_1'], service)).stderr, /key_1 \(ci\) revoked/);
  });

  it('cloche key names the scopes that there are', async () => {
    const { exitCode, stderr } = await runInProcess(['key', 'create', 'ci', '--scopes', 'nope']);
    assert.equal(exitCode, 2);
    assert.match(stderr, /no scope nope; use \* or any of: sandbox:create/);
  });
});

describe('cloche login', () => {
  let home: string;
  before(async () => {
    home = await mkdtemp(join(tmpdir(), 'cloche-login-'));
  });
  after(() => rm(home, { recursive: true }));
  const file = () => join(home, '.config', 'cloche', 'config.json');

  it('cloche login checks the key and keeps it where only the user can read it', async () => {
    await using service = await startService(() => json(200, current));
    const env = { HOME: home, CLOCHE_URL: service.url };
    const { exitCode, stderr } = await runInProcess(['login'], { env, input: 'clk_typed\n' });
    assert.equal(exitCode, 0);
    assert.match(stderr, /Logged in to http:\/\/\S+ \(acme\); the key is in \S+config\.json\./);
    assert.doesNotMatch(stderr, /clk_typed/);
    assert.deepEqual(JSON.parse(await readFile(file(), 'utf8')), { url: service.url, apiKey: 'clk_typed' });
    assert.equal((await stat(file())).mode & 0o777, 0o600);
    assert.equal(service.requests[0]?.headers.authorization, 'Bearer clk_typed');

    const { stdout } = await runInProcess(['whoami'], { env: { HOME: home } });
    assert.match(stdout, new RegExp(`^service {7}${service.url}\nversion .*\norganization {2}acme \\(org_1\\)\n`));
    assert.match(stdout, /\nproject {7}default \(prj_1\)\nkey {11}key_1\n/);
    assert.equal(service.requests[1]?.headers.authorization, 'Bearer clk_typed');
  });

  it('cloche login keeps the old key when the new one does not work, and a file that others could read becomes private', async () => {
    await writeFile(file(), JSON.stringify({ url: 'http://localhost:1', apiKey: 'old' }), { mode: 0o644 });
    await using refusing = await startService(() => failing('unauthorized'));
    const refused = await runInProcess(['login', '--url', refusing.url], { env: { HOME: home }, input: 'clk_wrong' });
    assert.equal(refused.exitCode, 1);
    assert.equal(JSON.parse(await readFile(file(), 'utf8')).apiKey, 'old');
    await using service = await startService(() => json(200, current));
    const args = ['login', '--url', service.url, '--api-key', 'clk_flag'];
    assert.equal((await runInProcess(args, { env: { HOME: home } })).exitCode, 0);
    assert.equal(JSON.parse(await readFile(file(), 'utf8')).apiKey, 'clk_flag');
    assert.equal((await stat(file())).mode & 0o777, 0o600);
  });

  it('cloche login keeps several services by their names, and uses the one that is named', async () => {
    const env = { HOME: home };
    await using service = await startService(({ path }) =>
      json(200, path === '/healthz' ? { status: 'ok', version: '9.9.9' } : current),
    );
    const login = (...args: string[]) => runInProcess(['login', '--url', service.url, ...args], { env });
    assert.equal((await login('--api-key', 'clk_own')).exitCode, 0);
    assert.match((await login('--name', 'prod', '--api-key', 'clk_prod')).stderr, /use it with --service prod\.\n$/);
    assert.equal((await stat(file())).mode & 0o777, 0o600);

    const elsewhere = { CLOCHE_URL: 'http://127.0.0.1:9', CLOCHE_API_KEY: 'clk_env' };
    for (const [args, more, key] of [
      [[], {}, 'clk_own'],
      [['--service', 'prod'], {}, 'clk_prod'],
      [[], { CLOCHE_SERVICE: 'prod' }, 'clk_prod'],
      [['--service', 'prod'], elsewhere, 'clk_prod'],
      [['--service', 'prod', '--api-key', 'clk_flag'], elsewhere, 'clk_flag'],
      [[], { CLOCHE_SERVICE: 'prod', CLOCHE_API_KEY: 'clk_env' }, 'clk_env'],
    ] as const) {
      const { stdout, stderr } = await runInProcess(['whoami', ...args], { env: { ...env, ...more } });
      assert.match(stdout, /\nversion {7}9\.9\.9 \(this client: 1\)\n/);
      assert.match(stderr, /different versions/);
      assert.equal(
        service.requests.findLast(({ path }) => path !== '/healthz')?.headers.authorization,
        `Bearer ${key}`,
      );
    }
    const unknown = await runInProcess(['whoami', '--service', 'prd'], { env });
    assert.deepEqual([unknown.exitCode, unknown.stderr], [2, 'error: No service is saved as "prd"; use prod.\n']);
    const names = async () =>
      JSON.parse((await runInProcess(['service', 'list', '--json'], { env })).stdout).data.map(
        ({ name }: { name: string }) => name,
      );
    assert.deepEqual(await names(), ['default', 'prod']);
    assert.equal((await runInProcess(['service', 'delete', 'prod'], { env })).stderr, 'prod deleted\n');
    assert.deepEqual(await names(), ['default']);
  });

  it('cloche login asks for a key that is there', async () => {
    const { exitCode, stderr } = await runInProcess(['login'], { env: { HOME: home }, input: ' \n' });
    assert.equal(exitCode, 2);
    assert.match(stderr, /No key was given/);
  });
});
