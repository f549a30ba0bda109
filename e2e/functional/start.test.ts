import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { findFreePort } from '@cloche/node-support';
import { eventually } from '@cloche/testkit/eventually';
import { seedInstallationId } from '@cloche/testkit/installation-ids';
import { execa } from 'execa';

/** Folder of an installation that `npm start` starts as a user would. */
let folder: string;
let env: Record<string, string>;
let started: Start;
before(async () => {
  folder = mkdtempSync(join(tmpdir(), 'cloche-start-'));
  chmodSync(folder, 0o711);
  env = {
    HOME: join(folder, 'home'),
    CLOCHE_DATA_DIR: join(folder, 'data'),
    CLOCHE_PORT: String(await findFreePort()),
    CLOCHE_POOL_SIZE: '2',
  };
  seedInstallationId(join(folder, 'data'));
  started = await start();
});
after(async () => {
  await execa('npx', ['cloche', 'admin', 'destroy-all'], { env, reject: false });
  await started?.stop();
  rmSync(folder, { recursive: true, force: true });
});

interface Start {
  readonly text: string;
  /** Sends SIGTERM, as a service manager does. Resolves with all output. */
  stop(): Promise<string>;
}

async function start(): Promise<Start> {
  const child: ChildProcess = spawn('npm', ['start'], {
    env: { ...process.env, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let text = '';
  child.stdout?.on('data', (chunk) => (text += chunk));
  child.stderr?.on('data', (chunk) => (text += chunk));
  const ended = once(child, 'exit');
  await eventually(() => /cloche run/.test(text) || child.exitCode !== null, { within: 300_000 });
  assert.equal(child.exitCode, null, text);
  return {
    text,
    async stop() {
      if (child.exitCode === null) child.kill('SIGTERM');
      await ended;
      return text;
    },
  };
}

/** Runs a printed line in a shell with only a user's environment. */
async function paste(text: string, pattern: RegExp): Promise<string> {
  const line = text.split('\n').find((candidate) => pattern.test(candidate));
  assert.ok(line, `no line like ${pattern} in:\n${text}`);
  const { HOME, CLOCHE_DATA_DIR } = env;
  return (await execa('sh', ['-c', line], { env: { HOME, CLOCHE_DATA_DIR } })).stdout;
}

describe('npm start', () => {
  it('npm start prints a line a step with its time, the URL and a key', () => {
    assert.match(started.text, /✔ template python-node +\d+\.\d s/);
    assert.match(started.text, new RegExp(`http://127.0.0.1:${env.CLOCHE_PORT}`));
    assert.match(started.text, /clk_[0-9A-Za-z]{46}/);
  });

  it('npm start prints a curl line and a cloche line that work as they are', async () => {
    assert.match(JSON.parse(await paste(started.text, /^\s*curl /)).sandbox.id, /^sbx_/);
    assert.equal(await paste(started.text, /cloche run/), '45');
  });

  it('npm start leaves sandboxes alone when it ends, and serves them when it is started again', async () => {
    const text = await started.stop();
    assert.match(text, /1 sandbox stays/);
    started = await start();
    assert.doesNotMatch(started.text, /clk_/);
    assert.match(await paste(started.text, /^\s*curl /), /"status":"(ready|creating)"|"sandbox"/);
    const { stdout } = await execa('npx', ['cloche', 'sandbox', 'list', '--json'], { env });
    assert.equal(JSON.parse(stdout).data.length, 2);
  });
});
