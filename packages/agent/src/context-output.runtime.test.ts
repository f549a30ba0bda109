import assert from 'node:assert/strict';
import { test } from 'node:test';
import { describePython } from './testing/describe-python.ts';
import { residentBytes } from './testing/process-readings.ts';

describePython('the output of a context', (python) => {
  const value = async (code: string) => (await python.agent.run(python.context, code)).outputs[0]?.value;

  test('forwards each print while the cell goes on', async () => {
    const run = await python.agent.start(python.context, 'import time\nprint(time.time(), end="")\ntime.sleep(1)');
    for await (const event of run) {
      if (event.type === 'stdout')
        assert.ok(Date.now() / 1000 - Number(event.data) < 0.5, 'it came while the cell slept');
    }
  });

  test('50 MB of output are cut at the limit, in time and without growing the agent', async () => {
    const before = residentBytes(python.agent.process.pid);
    const code = 'import sys\nfor _ in range(50): sys.stdout.write("x" * 1_000_000)';
    const { stdout, done, elapsedMs } = await python.agent.run(python.context, code, {
      limits: { stdoutBytes: 1_000_000 },
    });
    assert.deepEqual(done.truncated, { stdout: 49_000_000 });
    assert.match(stdout, /^x{1000000}\n\[cloche: 49000000 bytes of stdout cut, the limit is 1000000 bytes\]\n$/);
    assert.ok(elapsedMs < 10_000, `${elapsedMs} ms`);
    await python.agent.run(python.context, code);
    assert.ok(residentBytes(python.agent.process.pid) - before < 100 << 20);
  });

  test('stdout and stderr are cut each by itself, at whole characters', async () => {
    const code = 'import sys; print("é" * 10, end=""); print("short", file=sys.stderr)';
    const { stdout, stderr, done } = await python.agent.run(python.context, code, { limits: { stdoutBytes: 5 } });
    assert.equal(stdout, 'éé\n[cloche: 16 bytes of stdout cut, the limit is 5 bytes]\n');
    assert.equal(stderr, 'short\n');
    assert.deepEqual(done.truncated, { stdout: 16 });
  });

  test('bytes that are no UTF-8 become U+FFFD, and characters that chunks divide stay whole', async () => {
    const { stdout } = await python.agent.run(
      python.context,
      'import os, time\nos.write(1, b"a\\xff\\xfeb\\xe2\\x82"); time.sleep(0.05); os.write(1, b"\\xac\\xf0\\x9f");',
    );
    assert.equal(stdout, 'a\ufffd\ufffdb€\ufffd');
  });

  test('a client that reads nothing holds the cell back; the timeout still comes', async () => {
    const before = residentBytes(python.agent.process.pid);
    const run = await python.agent.start(python.context, 'while True: print("x" * 100_000)', {
      timeoutMs: 1000,
      limits: { stdoutBytes: 2 ** 40 },
    });
    run.connection.pause();
    const probe = await python.agent.open();
    await python.agent.run(probe, 'import time; time.sleep(0.8)');
    assert.ok(residentBytes(python.agent.process.pid) - before < 60 << 20);
    await python.agent.call('DELETE', `/contexts/${probe}`);
    assert.equal((await run.result()).done.error?.name, 'TimeoutError');
    assert.equal(await value('1'), '1');
  });

  test('an output over its limit is replaced by a line that says so', async () => {
    const { outputs } = await python.agent.run(python.context, '"x" * 1000', { limits: { outputBytes: 100 } });
    assert.match(outputs[0]?.value ?? '', /^\[cloche: text\/plain output of 1002 bytes left out/);
    const { outputs: many } = await python.agent.run(
      python.context,
      'from IPython.display import display\nfor _ in range(5): display("x" * 50)',
      { limits: { outputsBytes: 120 } },
    );
    assert.deepEqual(
      many.map(({ value }) => value.startsWith('[cloche')),
      [false, false, true, true, true],
    );
  });

  test('what a thread prints after its run belongs to none, or to the run that is on', async () => {
    await python.agent.run(
      python.context,
      'import threading, time\ndef late():\n  time.sleep(0.1)\n  print("late")\nt = threading.Thread(target=late); t.start()',
    );
    const { stdout } = await python.agent.run(python.context, 't.join(); import time; time.sleep(0.05)');
    assert.equal(stdout, 'late\n');
    await python.agent.run(python.context, 't = threading.Thread(target=late); t.start()');
    await python.agent.run(await python.agent.open(), 'import time; time.sleep(0.3)');
    assert.equal((await python.agent.run(python.context, 'print("next")')).stdout, 'next\n');
  });
});
