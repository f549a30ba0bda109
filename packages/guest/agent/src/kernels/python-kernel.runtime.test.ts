import assert from 'node:assert/strict';
import { test } from 'node:test';
import { describePython } from '../../testing/describe-python.ts';

describePython('a Python context', (python) => {
  const run = (code: string) => python.agent.run(python.context, code);

  test('a Python context gives the last expression as a result and keeps variables', async () => {
    await run('x = 20');
    const { outputs, done } = await run('x + 1');
    assert.deepEqual(outputs, [
      { kind: 'inline', format: 'text', mimeType: 'text/plain', value: '21', role: 'result', bundle: 0 },
    ]);
    assert.equal(done.error, undefined);
  });

  test('a Python context counts its executions', async () => {
    const first = await run('None');
    const second = await run('None');
    assert.equal(second.done.executionCount, first.done.executionCount + 1);
  });

  test('a Python context awaits at top level, and keeps its event loop between cells', async () => {
    await run(
      'import asyncio\nasync def late():\n  await asyncio.sleep(0.01)\n  return "late"\ntask = asyncio.ensure_future(late()) if False else None',
    );
    assert.equal((await run('await late()')).outputs[0]?.value, "'late'");
    await run('loop = asyncio.get_running_loop(); await asyncio.sleep(0)');
    assert.equal((await run('await asyncio.sleep(0); loop is asyncio.get_running_loop()')).outputs[0]?.value, 'True');
  });

  test('captures what programs, os.system and C libraries print', async () => {
    const { stdout, stderr } = await run(
      [
        'import ctypes, os, subprocess, sys',
        'print("python")',
        'os.system("echo system; echo error >&2")',
        'subprocess.run(["echo", "subprocess"])',
        '!echo shell',
        'ctypes.CDLL(None).puts(b"C")',
        'open("/dev/stdout", "w").write("device\\n")',
        'os.write(1, b"descriptor\\n");',
      ].join('\n'),
    );
    assert.deepEqual(stdout.trim().split('\n').sort(), [
      'C',
      'descriptor',
      'device',
      'python',
      'shell',
      'subprocess',
      'system',
    ]);
    assert.equal(stderr, 'error\n');
  });

  test('a Python context runs magics and assigns what a command prints', async () => {
    assert.equal((await run('files = !echo a b\nfiles')).outputs[0]?.value, "['a b']");
    assert.match((await run('%timeit -n1 -r1 None')).stdout, /1 loop/);
    assert.match((await run('%cd /tmp\n%pwd')).outputs[0]?.value ?? '', /\/tmp/);
    assert.equal((await run(`%cd -q ${python.agent.workspace}`)).done.error, undefined);
    assert.match((await run('%%bash\necho from bash')).stdout, /from bash/);
  });

  test('a Python context replaces what a cell has of its own syntax wherever it may stand, and what transformers it adds', async () => {
    for (const line of ['%pwd', 'place = !pwd', ',str a', '/str 1', 'str?', '    %pwd']) {
      const { done } = await run(`if True:\n    pass\n${line.startsWith(' ') ? `if True:\n${line}` : line}`);
      assert.equal(done.error, undefined, line);
    }
    await run(
      [
        'from IPython.core.inputtransformer2 import TokenTransformBase',
        'class Dollar(TokenTransformBase):',
        '  @classmethod',
        '  def find(cls, lines):',
        '    found = [token for line in lines for token in line if token.string == "$"]',
        '    return cls(found[0].start) if found else None',
        '  def transform(self, lines):',
        '    return [line.replace("$", "7") for line in lines]',
        'transformers = get_ipython().input_transformer_manager.token_transformers',
        'transformers.append(Dollar)',
      ].join('\n'),
    );
    assert.equal((await run('$ + 1')).outputs[0]?.value, '8');
    await run('transformers.pop()');
    assert.equal((await run('$ + 1')).done.error?.name, 'SyntaxError');
  });

  test('a Python context has nothing to read on standard input', async () => {
    assert.equal((await run('input("name? ")')).done.error?.name, 'EOFError');
    assert.equal((await run('import sys; sys.stdin.read()')).outputs[0]?.value, "''");
  });

  test('a Python context reports an exception by its class, with the frames of the cell alone and without colours', async () => {
    const { done, events } = await run('def divide():\n  return 1 / 0\ndivide()');
    assert.equal(done.error?.name, 'ZeroDivisionError');
    assert.equal(done.error?.message, 'division by zero');
    const traceback = done.error?.traceback?.join('\n') ?? '';
    assert.match(traceback, /line 2, in divide\n {4}return 1 \/ 0/);
    assert.doesNotMatch(traceback, /IPython|cloche_kernel/);
    assert.ok(!traceback.includes(String.fromCharCode(27)));
    assert.deepEqual(
      events.map(({ type }) => type),
      ['error', 'done'],
    );
  });

  test('a Python context reports what a chain of exceptions went through', async () => {
    const { done } = await run('try:\n  {}["key"]\nexcept KeyError as e:\n  raise RuntimeError("outer") from e');
    assert.match(
      done.error?.traceback?.join('\n') ?? '',
      /KeyError: 'key'[\s\S]*direct cause[\s\S]*RuntimeError: outer/,
    );
  });

  test('a Python context reports syntax errors, recursion without end and exceptions that cannot be printed', async () => {
    const syntax = (await run('x = = 1')).done.error;
    assert.equal(syntax?.name, 'SyntaxError');
    assert.match(syntax?.traceback?.join('\n') ?? '', /<cell \d+>", line 1/);
    const recursion = (await run('def f(): f()\nf()')).done.error;
    assert.equal(recursion?.name, 'RecursionError');
    assert.ok((recursion?.traceback?.length ?? 0) < 100);
    const silent = await run('class Bad(Exception):\n  def __str__(self): raise ValueError\nraise Bad');
    assert.equal(silent.done.error?.name, 'Bad');
    const empty = await run('class Empty(Exception):\n  def __len__(self): return 0\nraise Empty("x")');
    assert.equal(empty.done.error?.name, 'Empty');
    assert.equal((await run('1')).done.error, undefined);
  });

  test('a Python context survives exit(), sys.exit() and SystemExit, which end the cell', async () => {
    await run('kept = 1');
    for (const code of ['exit()', 'quit(3)', 'import sys; sys.exit("bye")', 'raise SystemExit']) {
      const { done, stderr } = await run(code);
      assert.equal(done.error?.name, 'SystemExit', code);
      assert.equal(stderr, '', code);
    }
    assert.equal((await run('kept')).outputs[0]?.value, '1');
  });

  test('a Python context reports an exception within %run', async () => {
    await run('open("fails.py", "w").write("raise KeyError(1)")');
    assert.equal((await run('%run fails.py')).done.error?.name, 'KeyError');
  });

  test('a Python context takes a cell to hold none of the own syntax of IPython only where that is so', async () => {
    const { outputs } = await run(`
from IPython.core.interactiveshell import InteractiveShell
from IPython.core.macro import Macro
shell = get_ipython()
cells = ["1+1", "1+1\\n\\n", "x = 1", "ls", "ls -la", "cd = 1", "pwd\\n", "ls\\nx", "%time 1", "!ls", "x?", "  1", "\\n\\n1",
  "1\\n   \\n2", "'''a\\n   \\nb'''", ">>> 1\\n>>> 2", "In [1]: 1", "... 1", ",f a b", ";f a", "/f a", "a\\n,f b", "a\\r\\nb",
  "a\\x0cb", "x\\x0c,f a", "x\\u2028,f a", "def f():\\n    return 1\\nf()", "exit", "time.time()", "m", "m 1", "", "  ", "# x",
  "*a, b = [1, 2]", "\\t1", "await x", "lambda: 0"]
shell.user_ns["m"] = Macro("1+1\\n")
def differing():
  return [cell for cell in cells if shell.transform_cell(cell) != InteractiveShell.transform_cell(shell, cell)]
plain = [cell for cell in cells if shell.plain_code.is_plain(cell)]
differ = differing()
upper = lambda lines: [line.upper() for line in lines]
shell.input_transformer_manager.cleanup_transforms.append(upper)
changed = shell.transform_cell("x = 1")
shell.input_transformer_manager.cleanup_transforms.remove(upper)
pwd = 1
(differ, differing(), {"1+1", "x = 1", "time.time()", "ls\\nx"} <= {*plain}, "ls" in plain, changed)`);
    assert.equal(outputs[0]?.value, "([], [], True, False, 'X = 1\\n')");
  });

  test('a Python context keeps nothing of what was printed', async () => {
    await run('print("x" * 1000)');
    const { outputs } = await run('dict(get_ipython().history_manager.outputs)');
    assert.equal(outputs[0]?.value, '{}');
  });

  test('an interrupt does its work whatever handler a cell has installed', async () => {
    await run('import signal; kept = 5; signal.signal(signal.SIGINT, signal.SIG_IGN);');
    await python.agent.run(python.context, 'while True: pass', { timeoutMs: 200 });
    assert.equal((await run('kept')).outputs[0]?.value, '5');
  });

  test('a Python context leaves matplotlib to programs that a cell starts', async () => {
    const { stdout, stderr } = await run(
      'import subprocess, sys\nsubprocess.run([sys.executable, "-c", "import matplotlib.pyplot as p; p.plot([1]); print(p.get_backend())"]);',
    );
    assert.equal(stdout.trim().toLowerCase(), 'agg', stderr);
  });

  test('a Python context does not load the scientific libraries by itself', async () => {
    const fresh = await python.agent.open();
    const { outputs } = await python.agent.run(
      fresh,
      'import sys; [m for m in ("numpy", "pandas", "matplotlib") if m in sys.modules]',
    );
    assert.equal(outputs[0]?.value, '[]');
    await python.agent.call('DELETE', `/contexts/${fresh}`);
  });

  test('a Python context goes on when a cell closes its streams and every low descriptor', async () => {
    await run('import asyncio; await asyncio.sleep(0)');
    await run('import os; os.closerange(0, 256)');
    assert.equal((await run('print("printed")')).stdout, 'printed\n');
    assert.equal((await run('import os; os.system("echo system")')).stdout, 'system\n');
    assert.equal((await run('import asyncio; await asyncio.sleep(0); "awaited"')).outputs[0]?.value, "'awaited'");
    await run('import sys; sys.stdout.close()');
    assert.equal((await run('print("again")')).stdout, 'again\n');
  });

  test('a Python context is not confused by forks that run on or display', async () => {
    const { stdout, outputs } = await run(
      'import os\nfrom IPython.display import display\npid = os.fork()\nif pid == 0:\n  display("from the child")\nelse:\n  os.waitpid(pid, 0)\nprint("parent" if pid else "child")',
    );
    assert.deepEqual(stdout.trim().split('\n').sort(), ['child', 'parent']);
    assert.equal(outputs.length, 0);
    assert.equal((await run('pid > 0')).outputs[0]?.value, 'True');
  });

  test('a Python context runs a pool of processes', async () => {
    const { outputs, stderr } = await run(
      'import multiprocessing as mp\nwith mp.Pool(2) as pool: r = pool.map(abs, [-1, -2])\nr',
    );
    assert.equal(outputs[0]?.value, '[1, 2]', stderr);
  });

  test('a Python context keeps modules of the workspace from shadowing its own', async () => {
    await run('open("traitlets.py", "w").write("raise RuntimeError"); open("mine.py", "w").write("value = 7")');
    const fresh = await python.agent.open();
    assert.equal((await python.agent.run(fresh, 'import mine; mine.value')).outputs[0]?.value, '7');
  });
});
