import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { eventually } from '@cloche/testkit/eventually';
import { describePython } from '../../testing/describe-python.ts';
import { descriptorCount, residentBytes, sleepers } from '../../testing/process-readings.ts';
import { StartedAgent } from '../../testing/started-agent.ts';
import { findPythonPackages } from '../../testing/test-cache.ts';

describePython('a context of the agent', (python) => {
  test('opening is idempotent by id, also at the same time', async () => {
    const ids = await Promise.all([1, 2, 3].map(() => python.agent.open('python', 'same')));
    assert.deepEqual(ids, ['same', 'same', 'same']);
    const { body } = await python.agent.call('GET', '/contexts');
    const { contexts } = body as { contexts: { contextId: string }[] };
    assert.equal(contexts.filter(({ contextId }) => contextId === 'same').length, 1);
    await python.agent.call('DELETE', '/contexts/same');
  });

  test('a context of the agent is opened along with its first runs, however many come at once', async () => {
    const open = { language: 'python' as const, cwd: python.agent.workspace, timeoutMs: 30_000 };
    const results = await Promise.all(
      [1, 2, 3].map(() => python.agent.run('along', 'import os; os.getpid()', { open })),
    );
    const pids = results.map(({ outputs }) => outputs[0]?.value);
    assert.equal(new Set(pids).size, 1);
    assert.deepEqual(results.map(({ done }) => done.executionCount).sort(), [1, 2, 3]);
    const elsewhere = python.agent.run('elsewhere', '1', { open: { ...open, cwd: '/nowhere' } });
    await assert.rejects(elsewhere, /invalid_cwd/);
    await python.agent.call('DELETE', '/contexts/along');
  });

  test('a context of the agent runs nothing for a client that has gone while it was opened', async () => {
    const open = { language: 'python' as const, cwd: python.agent.workspace, timeoutMs: 30_000 };
    const { connection } = await python.agent.start('left', 'left = 1', { open });
    connection.destroy();
    assert.equal((await python.agent.run('left', '"left" in globals()', { open })).outputs[0]?.value, 'False');
    await python.agent.call('DELETE', '/contexts/left');
  });

  test('works in its folder and nowhere outside of the workspace', async () => {
    mkdirSync(join(python.agent.workspace, 'inner/deep'), { recursive: true });
    symlinkSync('inner', join(python.agent.workspace, 'link'));
    symlinkSync('/etc', join(python.agent.workspace, 'out'));
    writeFileSync(join(python.agent.workspace, 'file'), '');
    const open = (cwd: string) =>
      python.agent.call('PUT', '/contexts/placed', { language: 'python', cwd, timeoutMs: 20_000 });
    for (const cwd of ['missing', 'out', 'file', '..', 'out/..', '../workspace-other'].map(
      (name) => `${python.agent.workspace}/${name}`,
    )) {
      const { status, body } = await open(cwd);
      assert.equal(status, 400, cwd);
      assert.equal((body as { error: { code: string } }).error.code, 'invalid_cwd');
    }
    assert.equal((await open('relative')).status, 400);
    const { body } = await open(join(python.agent.workspace, 'link/deep'));
    assert.equal((body as { cwd: string }).cwd, join(python.agent.workspace, 'inner/deep'));
    const { outputs } = await python.agent.run('placed', 'import os; os.getcwd()');
    assert.equal(outputs[0]?.value, `'${join(python.agent.workspace, 'inner/deep')}'`);
  });

  test('a kernel that is not ready in time, or cannot start, is no context', async () => {
    // Spare kernels have the workspace itself as their folder, so none of them is used.
    const cwd = join(python.agent.workspace, 'apart');
    mkdirSync(cwd);
    const open = (timeoutMs: number) =>
      python.agent.call('PUT', '/contexts/hasty', { language: 'python', cwd, timeoutMs });
    const { status, body } = await open(1);
    assert.equal(status, 504, JSON.stringify(body));
    assert.equal((await open(20_000)).status, 200);
    await python.agent.call('DELETE', '/contexts/hasty');
  });

  test('kernels have the environment of the client, no privileges and no descriptor of the agent', async () => {
    await python.agent.call('PUT', '/environment', { env: { GREETING: 'hello' } });
    const fresh = await python.agent.open();
    const { outputs } = await python.agent.run(
      fresh,
      'import os\n[os.environ["GREETING"], os.getuid(), os.getgid(), os.getgroups(), [l.split()[1] for l in open("/proc/self/status") if l.startswith("CapEff")][0], any(os.environ.get(n) for n in ("CLOCHE_LISTEN_FD", "CLOCHE_LISTEN_PATH"))]',
    );
    assert.equal(outputs[0]?.value, "['hello', 1000, 1000, [], '0000000000000000', False]");
    const { stdout } = await python.agent.run(fresh, '!ls -l /proc/self/fd | grep -c socket; true');
    assert.equal(stdout.trim(), '0');
    await python.agent.call('DELETE', `/contexts/${fresh}`);
  });

  test('a context of the agent refuses what does not fit its schemas', async () => {
    assert.equal(
      (await python.agent.call('PUT', '/contexts/x', { language: 'cobol', cwd: '/', timeoutMs: 1 })).status,
      400,
    );
    await assert.rejects(python.agent.run(python.context, '1', { timeoutMs: 0 }), /bad_request/);
    await assert.rejects(python.agent.run('unknown', '1'), /not_found/);
    assert.equal((await python.agent.call('GET', '/nothing')).status, 404);
    assert.equal((await python.agent.call('POST', '/contexts/unknown/interrupt')).status, 404);
  });

  test('deleting a context ends its runs and all that it started', async () => {
    const seconds = ownSeconds();
    const doomed = await python.agent.open();
    const running = await python.agent.start(
      doomed,
      `import os, subprocess\nchildren = [subprocess.Popen(["sleep", "${seconds}"]), subprocess.Popen(["sleep", "${seconds}"], start_new_session=True)]\nos.system("setsid sleep ${seconds} &")\nprint(os.getpid(), flush=True)\nwhile True: pass`,
    );
    const queued = await python.agent.start(doomed, '1');
    await running[Symbol.asyncIterator]().next();
    await eventually(() => sleepers(seconds) === 3, { because: 'each of the three processes has started' });
    assert.equal((await python.agent.call('DELETE', `/contexts/${doomed}`)).status, 204);
    for (const run of [running, queued]) assert.equal((await run.result()).done.error?.name, 'CanceledError');
    await eventually(() => sleepers(seconds) === 0, { because: 'the processes end' });
    assert.equal((await python.agent.call('DELETE', `/contexts/${doomed}`)).status, 204);
    await assert.rejects(python.agent.run(doomed, '1'), /not_found/);
  });

  test('a thousand runs leave no memory and no descriptors behind in the agent', async () => {
    const burst = async () => {
      for (let i = 0; i < 500; i++) await python.agent.run(python.context, 'print("x" * 1000); 1');
    };
    await burst();
    const memory = residentBytes(python.agent.process.pid);
    const descriptors = descriptorCount(python.agent.process.pid);
    await burst();
    assert.ok(residentBytes(python.agent.process.pid) - memory < 30 << 20);
    // Connections of either burst may still be open.
    await eventually(() => descriptorCount(python.agent.process.pid) <= descriptors, { because: 'they close' });
  });

  test('a context of the agent leaves nothing behind when it ends', async () => {
    const seconds = ownSeconds();
    const own = await StartedAgent.start(findPythonPackages());
    const id = await own.open();
    await own.run(id, `import subprocess; subprocess.Popen(["sleep", "${seconds}"], start_new_session=True)`);
    const exit = once(own.process, 'exit');
    own.process.kill('SIGTERM');
    await exit;
    await eventually(() => sleepers(seconds) === 0, { because: 'the processes end' });
    rmSync(own.folder, { recursive: true });
  });
});

/** Returns a duration that no other process sleeps for. */
function ownSeconds(): string {
  return `${1000 + process.pid}.${performance.now().toFixed()}`;
}
