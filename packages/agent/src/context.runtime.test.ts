import assert from 'node:assert/strict';
import { once } from 'node:events';
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { StartedAgent } from './testing/started-agent.ts';
import { findPythonPackages } from './testing/test-cache.ts';

const packages = findPythonPackages();

describe('a context of the agent', { skip: packages === undefined && 'no python-node template is built' }, () => {
  let agent: StartedAgent;
  let context: string;
  before(async () => {
    agent = await StartedAgent.start(packages);
    context = await agent.open();
  });
  after(() => agent[Symbol.asyncDispose]());

  const value = async (code: string) => (await agent.run(context, code)).outputs[0]?.value;

  const TIMEOUT_MS = 300;
  /** What a busy machine may add. An execution that is waited for takes a minute. */
  const LATE_MS = 2000;
  const interruptible = {
    'a sleep': 'import time; time.sleep(60)',
    'a busy loop': 'while True: pass',
    'an await': 'import asyncio; await asyncio.sleep(60)',
    'a busy loop after an await': 'import asyncio; await asyncio.sleep(0)\nwhile True: pass',
    'a subprocess': 'import subprocess; subprocess.run(["sleep", "60"])',
    'a shell command': '!sleep 60',
    'os.system': 'import os; os.system("sleep 60")',
    'a thread that is joined':
      'import threading, time; t = threading.Thread(target=time.sleep, args=(2,)); t.start(); t.join()',
    'displays without end': 'from IPython.display import display\nwhile True: display(1)',
    'prints without end': 'while True: print("x" * 1000)',
  };
  for (const [name, code] of Object.entries(interruptible)) {
    test(`times out on time in ${name}, and keeps its variables`, async () => {
      await agent.run(context, 'kept = 42');
      const { done, elapsedMs } = await agent.run(context, code, { timeoutMs: TIMEOUT_MS });
      assert.equal(done.error?.name, 'TimeoutError');
      assert.ok(elapsedMs > TIMEOUT_MS - 5 && elapsedMs < TIMEOUT_MS + LATE_MS, `${elapsedMs} ms`);
      const next = await agent.run(context, 'kept');
      assert.equal(next.outputs[0]?.value, '42');
      assert.equal(next.done.stateLost, undefined);
    });
  }

  test('kills a loop that swallows its interrupt, and says once that the state is lost', async () => {
    const code = 'import time\nwhile True:\n  try:\n    time.sleep(60)\n  except KeyboardInterrupt: print("no")';
    const { done, elapsedMs } = await agent.run(context, code, { timeoutMs: TIMEOUT_MS });
    assert.equal(done.error?.name, 'TimeoutError');
    assert.ok(elapsedMs < TIMEOUT_MS + LATE_MS, `${elapsedMs} ms`);
    const next = await agent.run(context, '"kept" in globals()');
    assert.equal(next.outputs[0]?.value, 'False');
    assert.equal(next.done.stateLost, true);
    assert.equal(next.stdout, '', 'nothing of the earlier run reaches this one');
    assert.equal((await agent.run(context, '1')).done.stateLost, undefined);
  });

  test('a timeout comes with what was printed before it', async () => {
    const { stdout, done } = await agent.run(context, 'print("partial", end="")\nwhile True: pass', { timeoutMs: 200 });
    assert.equal(stdout, 'partial');
    assert.equal(done.error?.name, 'TimeoutError');
  });

  test('a run that waits in the queue times out there, and is never executed', async () => {
    const first = await agent.start(context, 'import time; time.sleep(0.6)');
    const second = await agent.run(context, 'executed = True', { timeoutMs: 100 });
    assert.equal(second.done.error?.name, 'TimeoutError');
    assert.equal((await first.result()).done.error, undefined);
    assert.equal(await value('"executed" in globals()'), 'False');
  });

  test('runs execute in the order in which they came', async () => {
    await agent.run(context, 'order = []');
    const runs = await Promise.all(
      Array.from({ length: 20 }, (_, i) => agent.run(context, `order.append(${i}); ${i}`)),
    );
    assert.deepEqual(
      runs.map(({ outputs }) => Number(outputs[0]?.value)),
      [...Array(20).keys()],
    );
    assert.equal(await value('len(order)'), '20');
  });

  test('a queue that is full refuses', async () => {
    const blocker = await agent.start(context, 'import time; time.sleep(0.5)');
    const waiting = Array.from({ length: 64 }, () => agent.run(context, '1'));
    await setImmediate();
    await assert.rejects(agent.run(context, '1'), /queue_full/);
    await blocker.result();
    await Promise.all(waiting);
  });

  test('forwards each print while the cell goes on', async () => {
    const run = await agent.start(context, 'import time\nprint(time.time(), end="")\ntime.sleep(1)');
    for await (const event of run) {
      if (event.type === 'stdout')
        assert.ok(Date.now() / 1000 - Number(event.data) < 0.5, 'it came while the cell slept');
    }
  });

  test('50 MB of output are cut at the limit, in time and without growing the agent', async () => {
    const before = residentBytes(agent.process.pid);
    const code = 'import sys\nfor _ in range(50): sys.stdout.write("x" * 1_000_000)';
    const { stdout, done, elapsedMs } = await agent.run(context, code, { limits: { stdoutBytes: 1_000_000 } });
    assert.deepEqual(done.truncated, { stdout: 49_000_000 });
    assert.match(stdout, /^x{1000000}\n\[cloche: 49000000 bytes of stdout cut, the limit is 1000000 bytes\]\n$/);
    assert.ok(elapsedMs < 10_000, `${elapsedMs} ms`);
    await agent.run(context, code);
    assert.ok(residentBytes(agent.process.pid) - before < 100 << 20);
  });

  test('stdout and stderr are cut each by itself, at whole characters', async () => {
    const code = 'import sys; print("é" * 10, end=""); print("short", file=sys.stderr)';
    const { stdout, stderr, done } = await agent.run(context, code, { limits: { stdoutBytes: 5 } });
    assert.equal(stdout, 'éé\n[cloche: 16 bytes of stdout cut, the limit is 5 bytes]\n');
    assert.equal(stderr, 'short\n');
    assert.deepEqual(done.truncated, { stdout: 16 });
  });

  test('bytes that are no UTF-8 become U+FFFD, and characters that chunks divide stay whole', async () => {
    const { stdout } = await agent.run(
      context,
      'import os, time\nos.write(1, b"a\\xff\\xfeb\\xe2\\x82"); time.sleep(0.05); os.write(1, b"\\xac\\xf0\\x9f");',
    );
    assert.equal(stdout, 'a\ufffd\ufffdb€\ufffd');
  });

  test('a client that reads nothing holds the cell back; the timeout still comes', async () => {
    const before = residentBytes(agent.process.pid);
    const run = await agent.start(context, 'while True: print("x" * 100_000)', {
      timeoutMs: 1000,
      limits: { stdoutBytes: 2 ** 40 },
    });
    run.connection.pause();
    const probe = await agent.open();
    await agent.run(probe, 'import time; time.sleep(0.8)');
    assert.ok(residentBytes(agent.process.pid) - before < 60 << 20);
    await agent.call('DELETE', `/contexts/${probe}`);
    assert.equal((await run.result()).done.error?.name, 'TimeoutError');
    assert.equal(await value('1'), '1');
  });

  test('an output over its limit is replaced by a line that says so', async () => {
    const { outputs } = await agent.run(context, '"x" * 1000', { limits: { outputBytes: 100 } });
    assert.match(outputs[0]?.value ?? '', /^\[cloche: text\/plain output of 1002 bytes left out/);
    const { outputs: many } = await agent.run(
      context,
      'from IPython.display import display\nfor _ in range(5): display("x" * 50)',
      { limits: { outputsBytes: 120 } },
    );
    assert.deepEqual(
      many.map(({ value }) => value.startsWith('[cloche')),
      [false, false, true, true, true],
    );
  });

  test('an interrupt ends the current run and keeps the state; without a run it does nothing', async () => {
    assert.equal((await agent.call('POST', `/contexts/${context}/interrupt`)).status, 204);
    await agent.run(context, 'kept = 1');
    const run = await agent.start(context, 'print("begun")\nwhile True: pass');
    const events = run[Symbol.asyncIterator]();
    await events.next();
    assert.equal((await agent.call('POST', `/contexts/${context}/interrupt`)).status, 204);
    assert.equal((await run.result()).done.error?.name, 'CanceledError');
    assert.equal(await value('kept'), '1');
  });

  test('a client that leaves cancels its run', async () => {
    await agent.run(context, 'kept = 2');
    const marker = join(agent.workspace, 'left');
    const code = `try:\n  print("begun")\n  while True: pass\nfinally: open(${JSON.stringify(marker)}, "w")`;
    const run = await agent.start(context, code);
    await run[Symbol.asyncIterator]().next();
    run.connection.destroy();
    const next = await agent.run(context, 'kept');
    assert.equal(next.outputs[0]?.value, '2');
    assert.ok(existsSync(marker));
  });

  test('a client that leaves the queue is not served', async () => {
    const first = await agent.start(context, 'print("begun"); import time; time.sleep(0.3)');
    const abort = agent.start(context, 'served = True');
    const gone = abort.then(
      (run) => run.connection.destroy(),
      () => undefined,
    );
    await first.result();
    await gone;
    assert.equal((await agent.run(context, '1')).done.error, undefined);
  });

  test('a kernel that dies ends its run with KernelDiedError and is replaced', async () => {
    const cases = {
      'import os; print("last words"); os._exit(3)': /exited with code 3/,
      'import os, signal; os.kill(os.getpid(), signal.SIGSEGV)': /SIGSEGV/,
      'import os; os.closerange(3, 65536)': /exited with code 1/,
    };
    for (const [code, message] of Object.entries(cases)) {
      const { done, stdout } = await agent.run(context, code);
      assert.equal(done.error?.name, 'KernelDiedError', code);
      assert.match(done.error?.message ?? '', message);
      if (code.includes('last words')) assert.equal(stdout, 'last words\n');
      assert.equal((await agent.run(context, '1')).done.stateLost, true);
    }
  });

  test('a kernel that dies between runs is replaced by the next one, which says so', async () => {
    await agent.run(
      context,
      'import threading, os, time\nthreading.Timer(0.05, lambda: os._exit(0)).start()\npid = os.getpid(); pid',
    );
    const pid = Number(await value('pid'));
    while (existsSync(`/proc/${pid}`)) await setImmediate();
    assert.equal((await agent.run(context, '1')).done.stateLost, true);
  });

  const findSocket =
    'import os, stat\nfd = next(int(n) for n in os.listdir("/proc/self/fd") if int(n) > 300 and stat.S_ISSOCK(os.stat(f"/proc/self/fd/{n}").st_mode))\n';
  for (const [name, bytes] of Object.entries({
    'a frame that is no JSON': 'b"\\0\\0\\0\\4oops"',
    'a frame that is too large': 'b"\\xff\\xff\\xff\\xff"',
    'a frame that is no message': 'b"\\0\\0\\0\\2{}"',
  })) {
    test(`${name} ends the kernel that sent it and nothing else`, async () => {
      const other = await agent.open();
      const { done } = await agent.run(context, `${findSocket}os.write(fd, ${bytes})\nwhile True: pass`);
      assert.equal(done.error?.name, 'KernelDiedError');
      assert.match(done.error?.message ?? '', /broke its protocol/);
      assert.equal(await value('1'), '1');
      assert.equal((await agent.run(other, '1')).done.stateLost, undefined);
      await agent.call('DELETE', `/contexts/${other}`);
    });
  }

  test('a message with the id of another run reaches none', async () => {
    const forged = JSON.stringify({ type: 'done', runId: 'earlier', executionCount: 7 });
    const frame = `len(m).to_bytes(4, "big") + m`;
    const { outputs, done } = await agent.run(context, `${findSocket}m = b'${forged}'\nos.write(fd, ${frame}); "own"`);
    assert.equal(outputs[0]?.value, "'own'");
    assert.equal(done.error, undefined);
  });

  test('what a thread prints after its run belongs to none, or to the run that is on', async () => {
    await agent.run(
      context,
      'import threading, time\ndef late():\n  time.sleep(0.1)\n  print("late")\nt = threading.Thread(target=late); t.start()',
    );
    const { stdout } = await agent.run(context, 't.join(); import time; time.sleep(0.05)');
    assert.equal(stdout, 'late\n');
    await agent.run(context, 't = threading.Thread(target=late); t.start()');
    await agent.run(await agent.open(), 'import time; time.sleep(0.3)');
    assert.equal((await agent.run(context, 'print("next")')).stdout, 'next\n');
  });

  test('deleting a context ends its runs and all that it started', async () => {
    const seconds = ownSeconds();
    const doomed = await agent.open();
    const running = await agent.start(
      doomed,
      `import os, subprocess\nchildren = [subprocess.Popen(["sleep", "${seconds}"]), subprocess.Popen(["sleep", "${seconds}"], start_new_session=True)]\nos.system("setsid sleep ${seconds} &")\nprint(os.getpid(), flush=True)\nwhile True: pass`,
    );
    const queued = await agent.start(doomed, '1');
    await running[Symbol.asyncIterator]().next();
    while (sleepers(seconds) < 3) await setImmediate();
    assert.equal((await agent.call('DELETE', `/contexts/${doomed}`)).status, 204);
    for (const run of [running, queued]) assert.equal((await run.result()).done.error?.name, 'CanceledError');
    while (sleepers(seconds) > 0) await setImmediate();
    assert.equal((await agent.call('DELETE', `/contexts/${doomed}`)).status, 204);
    await assert.rejects(agent.run(doomed, '1'), /not_found/);
  });

  test('a restart gives a fresh kernel and ends the current run', async () => {
    await agent.run(context, 'kept = 1');
    const run = await agent.start(context, 'print(1)\nwhile True: pass');
    await run[Symbol.asyncIterator]().next();
    assert.equal((await agent.call('POST', `/contexts/${context}/restart`)).status, 204);
    assert.equal((await run.result()).done.error?.name, 'CanceledError');
    const next = await agent.run(context, '"kept" in globals()');
    assert.equal(next.outputs[0]?.value, 'False');
    assert.equal(next.done.executionCount, 1);
  });

  test('runs that come during a restart go to the fresh kernel, of which there is one', async () => {
    const before = kernelsOf(agent.process.pid);
    const kernel = async () => (await agent.run(context, 'import os; os.getpid()')).outputs[0]?.value;
    const old = await kernel();
    const restart = agent.call('POST', `/contexts/${context}/restart`);
    const runs = await Promise.all([1, 2, 3].map(() => agent.run(context, 'import os; os.getpid()')));
    await restart;
    const fresh = await kernel();
    assert.notEqual(fresh, old);
    for (const { done, outputs } of runs) {
      if (done.error) assert.equal(done.error.name, 'CanceledError');
      else assert.ok([old, fresh].includes(outputs[0]?.value));
    }
    // Fewer when the fresh one had been started ahead.
    while (kernelsOf(agent.process.pid) > before) await setImmediate();
  });

  test('opening is idempotent by id, also at the same time', async () => {
    const ids = await Promise.all([1, 2, 3].map(() => agent.open('python', 'same')));
    assert.deepEqual(ids, ['same', 'same', 'same']);
    const { body } = await agent.call('GET', '/contexts');
    const { contexts } = body as { contexts: { contextId: string }[] };
    assert.equal(contexts.filter(({ contextId }) => contextId === 'same').length, 1);
    await agent.call('DELETE', '/contexts/same');
  });

  test('works in its folder and nowhere outside of the workspace', async () => {
    mkdirSync(join(agent.workspace, 'inner/deep'), { recursive: true });
    symlinkSync('inner', join(agent.workspace, 'link'));
    symlinkSync('/etc', join(agent.workspace, 'out'));
    writeFileSync(join(agent.workspace, 'file'), '');
    const open = (cwd: string) => agent.call('PUT', '/contexts/placed', { language: 'python', cwd, timeoutMs: 20_000 });
    for (const cwd of ['missing', 'out', 'file', '..', 'out/..', '../workspace-other'].map(
      (name) => `${agent.workspace}/${name}`,
    )) {
      const { status, body } = await open(cwd);
      assert.equal(status, 400, cwd);
      assert.equal((body as { error: { code: string } }).error.code, 'invalid_cwd');
    }
    assert.equal((await open('relative')).status, 400);
    const { body } = await open(join(agent.workspace, 'link/deep'));
    assert.equal((body as { cwd: string }).cwd, join(agent.workspace, 'inner/deep'));
    const { outputs } = await agent.run('placed', 'import os; os.getcwd()');
    assert.equal(outputs[0]?.value, `'${join(agent.workspace, 'inner/deep')}'`);
  });

  test('a kernel that is not ready in time, or cannot start, is no context', async () => {
    // Kernels that wait are in the workspace itself.
    const cwd = join(agent.workspace, 'apart');
    mkdirSync(cwd);
    const open = (timeoutMs: number) => agent.call('PUT', '/contexts/hasty', { language: 'python', cwd, timeoutMs });
    const { status, body } = await open(1);
    assert.equal(status, 504, JSON.stringify(body));
    assert.equal((await open(20_000)).status, 200);
    await agent.call('DELETE', '/contexts/hasty');
  });

  test('kernels have the environment of the client, no privileges and no descriptor of the agent', async () => {
    await agent.call('PUT', '/environment', { env: { GREETING: 'hello' } });
    const fresh = await agent.open();
    const { outputs } = await agent.run(
      fresh,
      'import os\n[os.environ["GREETING"], os.getuid(), os.getgid(), os.getgroups(), [l.split()[1] for l in open("/proc/self/status") if l.startswith("CapEff")][0], any(os.environ.get(n) for n in ("CLOCHE_LISTEN_FD", "CLOCHE_LISTEN_PATH"))]',
    );
    assert.equal(outputs[0]?.value, "['hello', 1000, 1000, [], '0000000000000000', False]");
    const { stdout } = await agent.run(fresh, '!ls -l /proc/self/fd | grep -c socket; true');
    assert.equal(stdout.trim(), '0');
    await agent.call('DELETE', `/contexts/${fresh}`);
  });

  test('is opened along with its first runs, however many come at once', async () => {
    const open = { language: 'python' as const, cwd: agent.workspace, timeoutMs: 30_000 };
    const results = await Promise.all([1, 2, 3].map(() => agent.run('along', 'import os; os.getpid()', { open })));
    const pids = results.map(({ outputs }) => outputs[0]?.value);
    assert.equal(new Set(pids).size, 1);
    assert.deepEqual(results.map(({ done }) => done.executionCount).sort(), [1, 2, 3]);
    const elsewhere = agent.run('elsewhere', '1', { open: { ...open, cwd: '/nowhere' } });
    await assert.rejects(elsewhere, /invalid_cwd/);
    await agent.call('DELETE', '/contexts/along');
  });

  test('runs nothing for a client that has gone while it was opened', async () => {
    const open = { language: 'python' as const, cwd: agent.workspace, timeoutMs: 30_000 };
    const { connection } = await agent.start('left', 'left = 1', { open });
    connection.destroy();
    assert.equal((await agent.run('left', '"left" in globals()', { open })).outputs[0]?.value, 'False');
    await agent.call('DELETE', '/contexts/left');
  });

  test('refuses what does not fit its schemas', async () => {
    assert.equal((await agent.call('PUT', '/contexts/x', { language: 'cobol', cwd: '/', timeoutMs: 1 })).status, 400);
    await assert.rejects(agent.run(context, '1', { timeoutMs: 0 }), /bad_request/);
    await assert.rejects(agent.run('unknown', '1'), /not_found/);
    assert.equal((await agent.call('GET', '/nothing')).status, 404);
    assert.equal((await agent.call('POST', '/contexts/unknown/interrupt')).status, 404);
  });

  test('a thousand runs leave no memory and no descriptors behind in the agent', async () => {
    const burst = async () => {
      for (let i = 0; i < 500; i++) await agent.run(context, 'print("x" * 1000); 1');
    };
    await burst();
    const memory = residentBytes(agent.process.pid);
    const descriptors = descriptorCount(agent.process.pid);
    await burst();
    assert.ok(residentBytes(agent.process.pid) - memory < 30 << 20);
    // The last connection of either burst may not be closed yet.
    assert.ok(Math.abs(descriptorCount(agent.process.pid) - descriptors) <= 1);
  });

  test('when it ends nothing is left', async () => {
    const seconds = ownSeconds();
    const own = await StartedAgent.start(packages);
    const id = await own.open();
    await own.run(id, `import subprocess; subprocess.Popen(["sleep", "${seconds}"], start_new_session=True)`);
    const exit = once(own.process, 'exit');
    own.process.kill('SIGTERM');
    await exit;
    while (sleepers(seconds) > 0) await setImmediate();
    rmSync(own.folder, { recursive: true });
  });
});

function residentBytes(pid: number | undefined): number {
  return Number(/VmRSS:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]) * 1024;
}

function descriptorCount(pid: number | undefined): number {
  return readdirSync(`/proc/${pid}/fd`).length;
}

/** Children of the agent that are kernels. */
function kernelsOf(pid: number | undefined): number {
  const children = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim().split(' ');
  return children.filter((child) => commandLine(child).includes('cloche_kernel')).length;
}

/** Processes that sleep for just this long. */
function sleepers(seconds: string): number {
  return readdirSync('/proc').filter((name) => commandLine(name) === `sleep\0${seconds}\0`).length;
}

/** A time that no other process sleeps for. */
function ownSeconds(): string {
  return `${1000 + process.pid}.${performance.now().toFixed()}`;
}

function commandLine(pid: string): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8');
  } catch {
    return '';
  }
}
