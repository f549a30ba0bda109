import assert from 'node:assert/strict';
import { once } from 'node:events';
import { existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { describePython } from '../../testing/describe-python.ts';

const QUEUE_LENGTH = 64;

describePython('the runs of a context', (python) => {
  const value = async (code: string) => (await python.agent.run(python.context, code)).outputs[0]?.value;

  /** Starts a run that lasts until it is released. */
  async function blocked(name: string) {
    const file = join(python.agent.workspace, name);
    const code = `import os, time\nprint("begun")\nwhile not os.path.exists(${JSON.stringify(file)}): time.sleep(0.005)`;
    const run = await python.agent.start(python.context, code);
    await run[Symbol.asyncIterator]().next();
    return { result: () => run.result(), release: () => writeFileSync(file, '') };
  }

  const TIMEOUT_MS = 300;
  /** Tolerance for a busy machine. A run that is not ended at its timeout takes a minute. */
  const LATE_MS = 20_000;
  const interruptible = {
    'a sleep': 'import time; time.sleep(60)',
    'a busy loop': 'while True: pass',
    'an await': 'import asyncio; await asyncio.sleep(60)',
    'a busy loop after an await': 'import asyncio; await asyncio.sleep(0)\nwhile True: pass',
    'a subprocess': 'import subprocess; subprocess.run(["sleep", "60"])',
    'a shell command': '!sleep 60',
    'os.system': 'import os; os.system("sleep 60")',
    'a thread that is joined':
      'import threading, time; t = threading.Thread(target=time.sleep, args=(60,), daemon=True); t.start(); t.join()',
    'displays without end': 'from IPython.display import display\nwhile True: display(1)',
    'prints without end': 'while True: print("x" * 1000)',
  };
  for (const [name, code] of Object.entries(interruptible)) {
    test(`times out on time in ${name}, and keeps its variables`, async () => {
      await python.agent.run(python.context, 'kept = 42');
      const { done, elapsedMs } = await python.agent.run(python.context, code, { timeoutMs: TIMEOUT_MS });
      assert.equal(done.error?.name, 'TimeoutError');
      assert.ok(elapsedMs > TIMEOUT_MS - 5 && elapsedMs < TIMEOUT_MS + LATE_MS, `${elapsedMs} ms`);
      const next = await python.agent.run(python.context, 'kept');
      assert.equal(next.outputs[0]?.value, '42');
      assert.equal(next.done.stateLost, undefined);
    });
  }

  test('a context kills a loop that swallows its interrupt, and says once that the state is lost', async () => {
    const code = 'import time\nwhile True:\n  try:\n    time.sleep(60)\n  except KeyboardInterrupt: print("no")';
    const { done, elapsedMs } = await python.agent.run(python.context, code, { timeoutMs: TIMEOUT_MS });
    assert.equal(done.error?.name, 'TimeoutError');
    assert.ok(elapsedMs < TIMEOUT_MS + LATE_MS, `${elapsedMs} ms`);
    const next = await python.agent.run(python.context, '"kept" in globals()');
    assert.equal(next.outputs[0]?.value, 'False');
    assert.equal(next.done.stateLost, true);
    assert.equal(next.stdout, '', 'nothing of the earlier run reaches this one');
    assert.equal((await python.agent.run(python.context, '1')).done.stateLost, undefined);
  });

  test('a timeout comes with what was printed before it', async () => {
    const { stdout, done } = await python.agent.run(python.context, 'print("partial", end="")\nwhile True: pass', {
      timeoutMs: 1000,
    });
    assert.equal(stdout, 'partial');
    assert.equal(done.error?.name, 'TimeoutError');
  });

  test('a run that waits in the queue times out there, and is never executed', async () => {
    const first = await blocked('overtaken');
    const second = await python.agent.run(python.context, 'executed = True', { timeoutMs: 100 });
    assert.equal(second.done.error?.name, 'TimeoutError');
    first.release();
    assert.equal((await first.result()).done.error, undefined);
    assert.equal(await value('"executed" in globals()'), 'False');
  });

  test('the runs of a context execute in the order in which they came', async () => {
    await python.agent.run(python.context, 'order = []');
    const runs = await Promise.all(
      Array.from({ length: 20 }, (_, i) => python.agent.run(python.context, `order.append(${i}); ${i}`)),
    );
    assert.deepEqual(
      runs.map(({ outputs }) => Number(outputs[0]?.value)),
      [...Array(20).keys()],
    );
    assert.equal(await value('len(order)'), '20');
  });

  test('a queue that is full refuses', async () => {
    const blocker = await blocked('full');
    const waiting = Array.from({ length: QUEUE_LENGTH + 1 }, () => python.agent.run(python.context, '1'));
    // Any of them can be the refused one, because each has its own connection.
    await assert.rejects(Promise.race(waiting), /queue_full/);
    blocker.release();
    const ends = await Promise.allSettled(waiting);
    assert.equal(ends.filter(({ status }) => status === 'fulfilled').length, QUEUE_LENGTH);
  });

  test('an interrupt ends the current run and keeps the state; without a run it does nothing', async () => {
    assert.equal((await python.agent.call('POST', `/contexts/${python.context}/interrupt`)).status, 204);
    await python.agent.run(python.context, 'kept = 1');
    const run = await python.agent.start(python.context, 'print("begun")\nwhile True: pass');
    const events = run[Symbol.asyncIterator]();
    await events.next();
    assert.equal((await python.agent.call('POST', `/contexts/${python.context}/interrupt`)).status, 204);
    assert.equal((await run.result()).done.error?.name, 'CanceledError');
    assert.equal(await value('kept'), '1');
  });

  test('a client that leaves cancels its run', async () => {
    await python.agent.run(python.context, 'kept = 2');
    const marker = join(python.agent.workspace, 'left');
    const code = `try:\n  print("begun")\n  while True: pass\nfinally: open(${JSON.stringify(marker)}, "w")`;
    const run = await python.agent.start(python.context, code);
    await run[Symbol.asyncIterator]().next();
    run.connection.destroy();
    const next = await python.agent.run(python.context, 'kept');
    assert.equal(next.outputs[0]?.value, '2');
    assert.ok(existsSync(marker));
  });

  test('a client that leaves the queue is not served', async () => {
    const first = await blocked('queue-left');
    const { connection } = await python.agent.start(python.context, 'served = True');
    // The agent closes its side when it notices.
    await once(connection.resume().end(), 'close');
    first.release();
    assert.equal((await first.result()).done.error, undefined);
    assert.equal(await value('"served" in globals()'), 'False');
  });
});
