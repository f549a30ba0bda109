import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { test } from 'node:test';
import { eventually } from '@cloche/testkit/eventually';
import { describePython } from '../../testing/describe-python.ts';
import { kernelsOf } from '../../testing/process-readings.ts';

describePython('the kernel of a context', (python) => {
  const value = async (code: string) => (await python.agent.run(python.context, code)).outputs[0]?.value;

  test('a kernel that dies ends its run with KernelDiedError and is replaced', async () => {
    const cases = {
      'import os; print("last words"); os._exit(3)': /exited with code 3/,
      'import os, signal; os.kill(os.getpid(), signal.SIGSEGV)': /SIGSEGV/,
      'import os; os.closerange(3, 65536)': /exited with code 1/,
    };
    for (const [code, message] of Object.entries(cases)) {
      const { done, stdout } = await python.agent.run(python.context, code);
      assert.equal(done.error?.name, 'KernelDiedError', code);
      assert.match(done.error?.message ?? '', message);
      if (code.includes('last words')) assert.equal(stdout, 'last words\n');
      assert.equal((await python.agent.run(python.context, '1')).done.stateLost, true);
    }
  });

  test('a kernel that dies between runs is replaced by the next one, which says so', async () => {
    await python.agent.run(
      python.context,
      'import threading, os, time\nthreading.Timer(0.05, lambda: os._exit(0)).start()\npid = os.getpid(); pid',
    );
    const pid = Number(await value('pid'));
    await eventually(() => !existsSync(`/proc/${pid}`), { because: 'the kernel ends' });
    assert.equal((await python.agent.run(python.context, '1')).done.stateLost, true);
  });

  const findSocket =
    'import os, stat\nfd = next(int(n) for n in os.listdir("/proc/self/fd") if int(n) > 300 and stat.S_ISSOCK(os.stat(f"/proc/self/fd/{n}").st_mode))\n';
  for (const [name, bytes] of Object.entries({
    'a frame that is no JSON': 'b"\\0\\0\\0\\4oops"',
    'a frame that is too large': 'b"\\xff\\xff\\xff\\xff"',
    'a frame that is no message': 'b"\\0\\0\\0\\2{}"',
  })) {
    test(`${name} ends the kernel that sent it and nothing else`, async () => {
      const other = await python.agent.open();
      const { done } = await python.agent.run(python.context, `${findSocket}os.write(fd, ${bytes})\nwhile True: pass`);
      assert.equal(done.error?.name, 'KernelDiedError');
      assert.match(done.error?.message ?? '', /broke its protocol/);
      assert.equal(await value('1'), '1');
      assert.equal((await python.agent.run(other, '1')).done.stateLost, undefined);
      await python.agent.call('DELETE', `/contexts/${other}`);
    });
  }

  test('a message with the id of another run reaches none', async () => {
    const forged = JSON.stringify({ type: 'done', runId: 'earlier', executionCount: 7 });
    const frame = `len(m).to_bytes(4, "big") + m`;
    const { outputs, done } = await python.agent.run(
      python.context,
      `${findSocket}m = b'${forged}'\nos.write(fd, ${frame}); "own"`,
    );
    assert.equal(outputs[0]?.value, "'own'");
    assert.equal(done.error, undefined);
  });

  test('a restart gives a fresh kernel and ends the current run', async () => {
    await python.agent.run(python.context, 'kept = 1');
    const run = await python.agent.start(python.context, 'print(1)\nwhile True: pass');
    await run[Symbol.asyncIterator]().next();
    assert.equal((await python.agent.call('POST', `/contexts/${python.context}/restart`)).status, 204);
    assert.equal((await run.result()).done.error?.name, 'CanceledError');
    const next = await python.agent.run(python.context, '"kept" in globals()');
    assert.equal(next.outputs[0]?.value, 'False');
    assert.equal(next.done.executionCount, 1);
  });

  test('runs that come during a restart go to the fresh kernel, of which there is one', async () => {
    const before = kernelsOf(python.agent.process.pid);
    const kernel = async () => (await python.agent.run(python.context, 'import os; os.getpid()')).outputs[0]?.value;
    const old = await kernel();
    const restart = python.agent.call('POST', `/contexts/${python.context}/restart`);
    const runs = await Promise.all([1, 2, 3].map(() => python.agent.run(python.context, 'import os; os.getpid()')));
    await restart;
    const fresh = await kernel();
    assert.notEqual(fresh, old);
    for (const { done, outputs } of runs) {
      if (done.error) assert.equal(done.error.name, 'CanceledError');
      else assert.ok([old, fresh].includes(outputs[0]?.value));
    }
    // The count can be lower than before, if a spare has become the fresh kernel.
    await eventually(() => kernelsOf(python.agent.process.pid) <= before, { because: 'the old kernel ends' });
  });
});
