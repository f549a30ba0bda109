import assert from 'node:assert/strict';
import { existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { eventually } from '@cloche/testkit/eventually';
import { describePython } from '../../testing/describe-python.ts';
import { residentBytes } from '../../testing/process-readings.ts';

describePython('the output of a context', (python) => {
  const inWorkspace = (name: string) => join(python.agent.workspace, name);
  const untilExists = (name: string, indent = '') =>
    `${indent}import os, time\n${indent}while not os.path.exists(${JSON.stringify(inWorkspace(name))}): time.sleep(0.005)`;
  const value = async (code: string) => (await python.agent.run(python.context, code)).outputs[0]?.value;

  test('the output of a context forwards each print while the cell goes on', async () => {
    // The cell prints again only after the test has received the first output.
    const code = `print("first", end="")\n${untilExists('seen')}\nprint("second", end="")`;
    const printed: string[] = [];
    for await (const event of await python.agent.start(python.context, code)) {
      if (event.type !== 'stdout') continue;
      printed.push(event.data);
      writeFileSync(inWorkspace('seen'), '');
    }
    assert.deepEqual(printed, ['first', 'second']);
  });

  test('50 MB of output are cut at the limit, in time and without growing the agent', async () => {
    const before = residentBytes(python.agent.process.pid);
    const code = 'import sys\nfor _ in range(50): sys.stdout.write("x" * 1_000_000)';
    const { stdout, done, elapsedMs } = await python.agent.run(python.context, code, {
      limits: { stdoutBytes: 1_000_000 },
    });
    assert.deepEqual(done.truncated, { stdout: 49_000_000 });
    assert.match(
      stdout,
      /^x{1000000}\n\[cloche: 49000000 bytes of stdout cut; the limit is 1000000 bytes as JSON\]\n$/,
    );
    assert.ok(elapsedMs < 10_000, `${elapsedMs} ms`);
    await python.agent.run(python.context, code);
    assert.ok(residentBytes(python.agent.process.pid) - before < 100 << 20);
  });

  test('stdout and stderr are cut each by itself, at whole characters', async () => {
    const code = 'import sys; print("é" * 10, end=""); print("short", file=sys.stderr)';
    const { stdout, stderr, done } = await python.agent.run(python.context, code, { limits: { stdoutBytes: 5 } });
    assert.equal(stdout, 'éé\n[cloche: 16 bytes of stdout cut; the limit is 5 bytes as JSON]\n');
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
    assert.match(outputs[0]?.value ?? '', /^\[cloche: text\/plain output of 1002 bytes as JSON left out/);
    const { outputs: many } = await python.agent.run(
      python.context,
      'from IPython.display import display\nfor _ in range(5): display("x" * 50)',
      { limits: { outputsBytes: 130 } },
    );
    assert.deepEqual(
      many.map(({ value }) => value.startsWith('[cloche')),
      [false, false, true, true, true],
    );
  });

  test('what a thread prints after its run belongs to none, or to the run that is on', async () => {
    const startThread = (name: string) =>
      python.agent.run(
        python.context,
        `import threading\ndef late():\n${untilExists(name, '  ')}\n  print("late")\n  open(${JSON.stringify(inWorkspace(`${name}-printed`))}, "w")\nt = threading.Thread(target=late); t.start()`,
      );
    await startThread('during');
    const during = `open(${JSON.stringify(inWorkspace('during'))}, "w"); t.join()`;
    assert.equal((await python.agent.run(python.context, during)).stdout, 'late\n');
    await startThread('between');
    writeFileSync(inWorkspace('between'), '');
    await eventually(() => existsSync(inWorkspace('between-printed')), { because: 'the thread prints' });
    assert.equal((await python.agent.run(python.context, 'print("next")')).stdout, 'next\n');
  });
});
