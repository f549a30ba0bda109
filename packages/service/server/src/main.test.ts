import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, it } from 'node:test';
import { compileCache } from '@cloche/testkit/compile-cache';

const folder = mkdtempSync(join(tmpdir(), 'cloche-main-'));
const children: ChildProcess[] = [];
after(() => {
  for (const child of children) child.kill('SIGKILL');
  rmSync(folder, { recursive: true, force: true });
});

function run(env: Record<string, string>): ChildProcess {
  const child = spawn(process.execPath, [join(import.meta.dirname, 'main.ts')], {
    env: {
      CLOCHE_DATA_DIR: join(folder, 'data'),
      CLOCHE_RUN_DIR: join(folder, 'run'),
      CLOCHE_PORT: '0',
      ...compileCache(),
      ...env,
    },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  children.push(child);
  return child;
}

/** The address in the line that says so. */
async function servedAt(child: ChildProcess): Promise<string> {
  assert.ok(child.stdout);
  let text = '';
  for await (const chunk of child.stdout.iterator({ destroyOnReturn: false })) {
    text += chunk;
    const url = /"url":"([^"]+)","msg":"serving"/.exec(text)?.[1];
    if (url) return url;
  }
  assert.fail('it never served');
}

describe('the server process', () => {
  it('the server process says what is wrong with its settings and ends', async () => {
    const child = run({ CLOCHE_PORT: 'many' });
    const [text, [code]] = await Promise.all([child.stderr?.setEncoding('utf8').toArray(), once(child, 'exit')]);
    assert.equal(code, 78);
    assert.equal(text?.join(''), 'CLOCHE_PORT must be a whole number from 0 to 65535\n');
  });

  it('the server process refuses a SQLite file that another server uses, until that one has ended, even by SIGKILL', async () => {
    const data = { CLOCHE_DATA_DIR: join(folder, 'locked') };
    const first = run({ ...data, CLOCHE_RUN_DIR: join(folder, 'run-1') });
    await servedAt(first);
    const second = run({ ...data, CLOCHE_RUN_DIR: join(folder, 'run-2') });
    const [text, [code]] = await Promise.all([second.stderr?.setEncoding('utf8').toArray(), once(second, 'exit')]);
    assert.equal(code, 78);
    assert.match(
      text?.join('') ?? '',
      new RegExp(`^another server, process ${first.pid}, uses the database \\S+/cloche.db`),
    );
    first.kill('SIGKILL');
    await once(first, 'exit');
    const third = run({ ...data, CLOCHE_RUN_DIR: join(folder, 'run-2') });
    await servedAt(third);
    third.kill('SIGTERM');
    await once(third, 'exit');
    assert.equal(third.exitCode, 0);
  });

  it('the server process is alive but not ready without a runtime, and shuts down in order on SIGTERM', async () => {
    const child = run({});
    const url = await servedAt(child);
    assert.equal((await fetch(`${url}/healthz`)).status, 200);
    assert.equal((await fetch(`${url}/readyz`)).status, 503);
    child.kill('SIGTERM');
    const [rest] = await Promise.all([child.stdout?.setEncoding('utf8').toArray(), once(child, 'exit')]);
    assert.equal(child.exitCode, 0);
    assert.match(rest?.join('') ?? '', /"msg":"stopped"/);
  });
});
