import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { arriveAt } from './testing/arriving-kernel.ts';
import { StartedAgent } from './testing/started-agent.ts';
import { findPythonPackages } from './testing/test-cache.ts';

const packages = findPythonPackages();

describe('a context that is given a forked kernel', { skip: packages === undefined && 'no template is built' }, () => {
  const folder = mkdtempSync(join(tmpdir(), 'cloche-arrivals-'));
  let agent: StartedAgent;
  before(async () => {
    agent = await StartedAgent.start(packages, { CLOCHE_KERNELS_FOLDER: folder });
  });
  after(async () => {
    await agent[Symbol.asyncDispose]();
    rmSync(folder, { recursive: true });
  });

  const open = (contextId: string, forkedKernelMs: number) =>
    agent.call('PUT', `/contexts/${contextId}`, {
      language: 'python',
      cwd: agent.workspace,
      timeoutMs: 30_000,
      forkedKernelMs,
    });

  test('has one that is started in its place, if it dies before it is ready', async () => {
    // The agent ends all of a kernel that failed, so it is another process than this one.
    const stranger = spawn('sleep', ['600']);
    const kernel = await arriveAt(folder, { pid: stranger.pid ?? 0 });
    kernel.on('data', () => kernel.destroy());
    try {
      assert.equal((await open('given-a-dying-one', 20_000)).status, 200);
      assert.equal((await agent.run('given-a-dying-one', '1 + 1')).outputs[0]?.value, '2');
    } finally {
      stranger.kill('SIGKILL');
    }
  });

  test('has one that is started as well, if it is said that none comes', async () => {
    const opening = open('given-none', 20_000);
    let isOpen = false;
    opening.then(() => {
      isOpen = true;
    });
    while (!isOpen) assert.equal((await agent.call('DELETE', '/forked-kernel')).status, 204);
    assert.equal((await opening).status, 200);
    assert.equal((await agent.run('given-none', '1 + 1')).outputs[0]?.value, '2');
  });
});
