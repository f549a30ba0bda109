/** What a test leaves when it is interrupted. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, globSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { eventually } from '@cloche/testkit/eventually';
import { testService } from '../support/service.ts';

const SERVICE = new URL('../support/service.ts', import.meta.url).href;
const LEFT_MS = 60_000;
/** Among what the runner of tests prints. */
const DESCRIPTION = /\{"installationId.*\}/;
/** Starts a service with a sandbox as a test does, and describes it. */
const PROGRAM = `
import { test } from 'node:test';
const { testService } = await import(${JSON.stringify(SERVICE)});
test('interrupted', async () => {
  const { api, installationId, dataDir, runDir } = await testService();
  await api.readySandbox();
  process.stdout.write(JSON.stringify({ installationId, dataDir, runDir }) + '\\n');
  await new Promise(() => setInterval(() => undefined, 1000));
});`;

describe('a test that is interrupted', () => {
  for (const signal of ['SIGINT', 'SIGKILL'] as const) {
    it(`by ${signal} to its process group leaves no sandbox of its service, and no folder`, async () => {
      const child = spawn(process.execPath, ['--input-type=module', '-e', PROGRAM], {
        detached: true,
        stdio: ['ignore', 'pipe', 'inherit'],
      });
      const { pid = assert.fail('no process') } = child;
      using _ = { [Symbol.dispose]: () => void child.kill('SIGKILL') };
      let printed = '';
      child.stdout.setEncoding('utf8').on('data', (text: string) => {
        printed += text;
      });
      await eventually(() => DESCRIPTION.test(printed), { within: LEFT_MS });
      const { installationId, dataDir, runDir } = JSON.parse(DESCRIPTION.exec(printed)?.[0] ?? '');
      const groups = () => globSync(`/sys/fs/cgroup/{,*/}cloche-${installationId}/*/`);
      assert.ok(groups().length > 0);
      const ended = once(child, 'close');
      process.kill(-pid, signal);
      await ended;
      await eventually(() => groups().length === 0 && !existsSync(dataDir) && !existsSync(runDir), { within: LEFT_MS });
    });
  }
});

describe('a benchmark that is killed with the process that owns its service', () => {
  it('a benchmark that is killed with the process that owns its service leaves no sandbox of its service, and no folder', async () => {
    const before = new Set(readdirSync(tmpdir()));
    const env = JSON.stringify({ CLOCHE_POOL_SIZE: '1' });
    const owner = spawn(process.execPath, ['bench/src/subject-service.ts', env], {
      cwd: new URL('../..', import.meta.url),
      detached: true,
      stdio: ['pipe', 'pipe', 'inherit'],
    });
    owner.stdin.on('error', () => undefined);
    const { pid = assert.fail('no process') } = owner;
    using _ = { [Symbol.dispose]: () => void owner.kill('SIGKILL') };
    const [line] = await once(owner.stdout.setEncoding('utf8'), 'data');
    const { installationId, runDir } = JSON.parse(line);
    const folders = readdirSync(tmpdir()).filter((name) => name.startsWith('cloche-bench-') && !before.has(name));
    const groups = () => globSync(`/sys/fs/cgroup/{,*/}cloche-${installationId}/*/`);
    await eventually(() => groups().length > 0, { within: LEFT_MS });
    process.kill(-pid, 'SIGKILL');
    const dirs = [runDir, ...folders.map((name) => join(tmpdir(), name))];
    await eventually(() => groups().length === 0 && !dirs.some((dir) => existsSync(dir)), { within: LEFT_MS });
  });
});

describe('a test whose service does not start', () => {
  it('a test whose service does not start leaves no folder', async () => {
    const before = readdirSync(tmpdir());
    await assert.rejects(testService({ CLOCHE_POOL_SIZE: 'many' }));
    const left = readdirSync(tmpdir()).filter((name) => name.startsWith('cloche-e2e-') && !before.includes(name));
    // Other files make folders of their own meanwhile, in which a service has started.
    const notStarted = left.filter((name) => !existsSync(join(tmpdir(), name, 'server', 'cloche.db')));
    assert.deepEqual(notStarted, []);
  });

  it('a test whose service does not start keeps the folder of its caller', async () => {
    const own = mkdtempSync(join(tmpdir(), 'cloche-e2e-own-'));
    try {
      await assert.rejects(testService({ CLOCHE_POOL_SIZE: 'many' }, own));
      assert.ok(existsSync(own));
    } finally {
      rmSync(own, { recursive: true, force: true });
    }
  });
});
