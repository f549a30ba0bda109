import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, globSync } from 'node:fs';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { after, describe, it } from 'node:test';
import { eventually } from '@cloche/testkit/eventually';
import { seedInstallationId } from '@cloche/testkit/installation-ids';
import { requestFirstKey } from '../first-key.ts';
import { ensureServiceAccounts } from '../host/service-account.ts';
import { SetupError } from '../progress.ts';
import { type Installation, type InstallationOptions, startInstallation } from './start-installation.ts';

const PROGRAMS = {
  hostd: 'packages/host/setup/testing/stand-in-hostd.ts',
  egress: 'packages/host/setup/testing/stand-in-egress.ts',
  server: 'packages/host/setup/testing/stand-in-server.ts',
};

type Self = {
  uid: number;
  capabilities: string;
  noNewPrivileges: string;
  program: string;
  canWriteCode: boolean;
  env: Record<string, string>;
};

describe('startInstallation', () => {
  const started: Installation[] = [];
  const folders: string[] = [];

  async function start(options: Partial<InstallationOptions> = {}): Promise<Installation> {
    const folder = await mkdtemp(join(tmpdir(), 'cloche-setup-'));
    const runDir = join('/run', basename(folder));
    folders.push(folder, runDir);
    seedInstallationId(folder);
    const installation = await startInstallation({
      dataDir: folder,
      runDir,
      prepared: { accounts: await accounts(), guestDir: '/nonexistent' },
      programs: PROGRAMS,
      ...options,
    });
    started.push(installation);
    return installation;
  }

  function accounts() {
    return ensureServiceAccounts('/dev/null');
  }

  async function self(installation: Installation): Promise<Self> {
    return (await (await fetch(`${installation.url}/self`)).json()) as Self;
  }

  after(async () => {
    await Promise.all(started.map((installation) => installation.stop()));
    await Promise.all(folders.map((folder) => rm(folder, { recursive: true, force: true })));
  });

  it('startInstallation runs the server without privileges from a checkout that it cannot write', async () => {
    const { uid, capabilities, noNewPrivileges, program, canWriteCode } = await self(await start());
    assert.notEqual(uid, 0);
    assert.equal(capabilities, '0000000000000000');
    assert.equal(noNewPrivileges, '1');
    assert.match(program, /^\/run\//);
    assert.equal(canWriteCode, false);
  });

  it('startInstallation gives the server its settings and nothing of the operator’s environment', async () => {
    process.env.SOME_TOKEN = 'secret';
    const installation = await start({ env: { CLOCHE_LOG_LEVEL: 'warn' } });
    delete process.env.SOME_TOKEN;
    const { env } = await self(installation);
    assert.equal(env.CLOCHE_DATA_DIR, installation.dataDir);
    assert.equal(env.CLOCHE_PORT, String(installation.port));
    assert.equal(env.CLOCHE_LOG_LEVEL, 'warn');
    assert.equal(env.CLOCHE_GUEST_DIR, undefined);
    assert.equal(env.SOME_TOKEN, undefined);
  });

  it('startInstallation runs two installations side by side under different names', async () => {
    const [one, other] = await Promise.all([start(), start()]);
    assert.notEqual(one.installationId, other.installationId);
    assert.notEqual(one.port, other.port);
    assert.match(one.installationId, /^[a-z0-9]{8}$/);
    assert.notEqual((await self(one)).env.CLOCHE_RUN_DIR, (await self(other)).env.CLOCHE_RUN_DIR);
  });

  it('startInstallation keeps the name of an installation over a restart', async () => {
    const first = await start();
    await first.stop();
    const again = await start({ dataDir: first.dataDir });
    assert.equal(again.installationId, first.installationId);
  });

  it('startInstallation refuses a data folder that another one runs from', async () => {
    const { dataDir } = await start();
    await assert.rejects(start({ dataDir }), /Another Cloche runs from/);
  });

  it('startInstallation starts a part again that died, and says so', async () => {
    const lines: string[] = [];
    const installation = await start({ report: (line) => lines.push(line) });
    const before = installation.pid('server');
    installation.kill('server', 'SIGKILL');
    const isStartedAgain = async () => {
      const pid = installation.pid('server');
      if (pid === undefined || pid === before) return false;
      const answer = await fetch(`${installation.url}/readyz`).catch(() => undefined);
      return answer?.ok === true;
    };
    await eventually(isStartedAgain, { because: 'the server is started again' });
    assert.match(lines.join(), /server ended by SIGKILL; starting it again in 0\.1 s/);
  });

  it('startInstallation leaves a part dead that died when it is not to supervise', async () => {
    const installation = await start({ supervise: false });
    installation.kill('server', 'SIGKILL');
    await eventually(() => installation.pid('server') === undefined, { because: 'the server ends' });
    await installation.restart('server');
    assert.ok((await fetch(`${installation.url}/readyz`)).ok);
  });

  it('startInstallation ends every part and never starts one again after stop', async () => {
    const installation = await start();
    const pids = (['hostd', 'egress', 'server'] as const).map((part) => installation.pid(part));
    await installation.stop();
    for (const pid of pids) assert.equal(existsSync(`/proc/${pid}/exe`), false);
    await installation.stop();
    assert.equal(installation.pid('server'), undefined);
  });

  it('startInstallation destroys all sandboxes on request, also after hostd and the server have died', async () => {
    const installation = await start({ supervise: false });
    for (const part of ['hostd', 'server'] as const) {
      installation.kill(part, 'SIGKILL');
      await eventually(() => installation.pid(part) === undefined, { because: `${part} ends` });
    }
    await installation.stop({ destroyAll: true });
    assert.match(await readFile(installation.logs.server, 'utf8'), /destroyed all sandboxes/);
    assert.equal(installation.pid('hostd'), undefined);
    await installation.stop({ destroyAll: true });
    assert.equal(installation.pid('hostd'), undefined);
  });

  it('startInstallation leaves no part behind when it is killed itself; the next start takes over the group of the parts', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'cloche-setup-'));
    const runDir = join('/run', basename(folder));
    folders.push(folder, runDir);
    seedInstallationId(folder);
    const options = {
      dataDir: folder,
      runDir,
      programs: PROGRAMS,
      prepared: { accounts: await accounts(), guestDir: '/x' },
    };
    const program = `
      import { startInstallation } from ${JSON.stringify(new URL('./start-installation.ts', import.meta.url).href)};
      const installation = await startInstallation(${JSON.stringify(options)});
      console.log(JSON.stringify(['hostd', 'egress', 'server'].map(installation.pid)));`;
    const supervisor = spawn(process.execPath, ['--input-type=module', '-e', program], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    const [line] = (await once(supervisor.stdout, 'data')) as [Buffer];
    supervisor.kill('SIGKILL');
    const pids = JSON.parse(line.toString()) as number[];
    await eventually(() => pids.every((pid) => !existsSync(`/proc/${pid}/exe`)), {
      because: 'every part ends with the process that started it',
    });
    const next = await startInstallation(options);
    started.push(next);
    const groups = () => globSync(`/sys/fs/cgroup/{,*/}cloche-${next.installationId}-parts`);
    assert.equal(groups().length, 1);
    await next.stop();
    assert.deepEqual(groups(), []);
  });

  it('startInstallation ends what it started when a part does not get ready, and shows that part’s last words', async () => {
    const programs = { ...PROGRAMS, hostd: 'packages/host/setup/testing/stand-in-failing.ts' };
    await assert.rejects(start({ programs }), (error: unknown) => {
      assert.ok(error instanceof SetupError);
      assert.match(error.message, /hostd exited with 3 before it was ready[\s\S]*the reason why/);
      return true;
    });
  });

  it('startInstallation refuses a data folder that the server could not enter', async () => {
    const closed = await mkdtemp(join(tmpdir(), 'cloche-closed-'));
    folders.push(closed);
    await assert.rejects(start({ dataDir: join(closed, 'data') }), /cannot enter/);
    assert.equal(existsSync(join(closed, 'data')), false);
  });

  it('startInstallation writes what each part prints to a log of its own', async () => {
    const installation = await start();
    assert.equal(await readFile(installation.logs.server, 'utf8'), '');
  });

  it('startInstallation asks for the first key once', async () => {
    const installation = await start();
    assert.equal(await requestFirstKey(installation), 'clk_first');
    assert.equal(await requestFirstKey(installation), undefined);
  });
});
