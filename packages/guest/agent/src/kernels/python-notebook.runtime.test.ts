/** What Jupyter's users know of a Python kernel, as ipykernel 7 does it. */
import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { eventually } from '@cloche/testkit/eventually';
import { describePython } from '../../testing/describe-python.ts';

/** Cells that end with a semicolon, and others, with the value that they show. */
const SEMICOLONS: readonly [string, string?][] = [
  ['5;'],
  ['5; # a comment'],
  ['5 ;\n\n'],
  ['x = 1\nx;'],
  ['"a;";'],
  ['# a comment;\n5', '5'],
  ['"a;"', "'a;'"],
  ['5 # a; comment;', '5'],
  ['1; 2', '2'],
  ['%time 5;'],
  ['import asyncio\nawait asyncio.sleep(0, 5);'],
  ['get_ipython().run_cell("6"); 5;', '6'],
  ['get_ipython().run_cell("6;").success', 'True'],
];

/** What finds the last exception, which is `ZeroDivisionError` in `divide`, and a text that it prints. */
const POST_MORTEM: readonly [string, RegExp][] = [
  ['%tb', /in divide\n[\s\S]*ZeroDivisionError: division by zero/],
  ['%debug', /in divide\(\)|divide\(\)/],
  ['import traceback; traceback.print_last()', /in divide\n[\s\S]*ZeroDivisionError/],
  ['import pdb; pdb.pm()', /divide\(\)/],
  ['import sys; print(repr(sys.last_value), sys.last_type.__name__)', /ZeroDivisionError\('division by zero'\) Zero/],
  ['import sys, traceback; print(traceback.extract_tb(sys.last_traceback)[0].filename)', /^<cell \d+>\n$/],
  ['%xmode Plain\n%tb', /in divide/],
];

/** Code that does not await and uses the running loop, and what it shows. */
const RUNNING_LOOP: readonly [string, string][] = [
  ['task = asyncio.create_task(value()); type(task).__name__', "'Task'"],
  ['await task', '7'],
  ['type(asyncio.get_running_loop()).__name__', "'_UnixSelectorEventLoop'"],
  ['asyncio.current_task() is None', 'True'],
  ['def start(): return asyncio.create_task(value())\ntask = start()\ntask.done()', 'False'],
  ['await task', '7'],
  ['group = asyncio.gather(value(), value())\ngroup.done()', 'False'],
  ['await group', '[7, 7]'],
  ['asyncio.get_running_loop().call_soon(found.append, 1); len(found)', '0'],
  ['await asyncio.sleep(0); found', '[1]'],
  ['asyncio.run(value())', '7'],
  ['asyncio.new_event_loop().run_until_complete(value())', '7'],
  ['asyncio.get_event_loop().run_until_complete(value())', '7'],
  ['asyncio.run(value()); asyncio.get_running_loop() is asyncio.get_event_loop()', 'True'],
  ['with asyncio.Runner() as runner: runner.run(value())\nasyncio.get_running_loop().is_running()', 'False'],
  [
    'import threading\nthread = threading.Thread(target=lambda: found.append(asyncio.run(value())))\nthread.start(); thread.join(); found[-1]',
    '7',
  ],
];

/** Magics that keep something, or that end the cell, and what comes after them. */
const MAGICS: readonly [string, { error?: string; next?: string; shows?: string }][] = [
  ['%rehashx', {}],
  ['%bookmark here\n%bookmark -l', {}],
  ['kept = 6\n%store kept\n%store -r kept', { next: 'kept', shows: '6' }],
  ['%alias_magic twice time', {}],
  ['%reset -f', { next: 'len([name for name in dir() if name == "gone"])', shows: '0' }],
  ['%reset -f\nexit()', { error: 'SystemExit' }],
  ['%reset -f\nquit(3)', { error: 'SystemExit' }],
  ['exit', { error: 'SystemExit' }],
  ['quit', { error: 'SystemExit' }],
  ['%reset_selective -f gone', { next: '1 + 1', shows: '2' }],
  ['%reset -f\n%who', { next: '3', shows: '3' }],
];

describePython('a Python context', (python) => {
  const run = (code: string) => python.agent.run(python.context, code);
  const shown = async (code: string) => {
    const { outputs, done } = await run(code);
    assert.equal(done.error, undefined, `${code}\n${JSON.stringify(done.error)}`);
    return outputs[0]?.value;
  };

  test('a Python context hides the value of a cell that ends with a semicolon', async () => {
    for (const [code, value] of SEMICOLONS) assert.equal(await shown(code), value, code);
    assert.equal((await run('import matplotlib.pyplot as plt\nplt.plot([1]);')).outputs[0]?.role, 'display');
  });

  test('a Python context names its last three values', async () => {
    await run('del _, __, ___');
    for (const n of [1, 2, 3]) await run(`${n}${n}`);
    assert.equal(await shown('(_, __, ___)'), '(33, 22, 11)');
    await run('44;');
    assert.equal(await shown('_'), '(33, 22, 11)');
    await run('_ = "own"\n5');
    assert.equal(await shown('_'), "'own'");
    await run('del _');
  });

  test('a Python context has its last exception for debuggers and for %tb', async () => {
    await run('def divide(): return 1 / 0\ndivide()');
    for (const [code, expected] of POST_MORTEM) {
      const { stdout, stderr, done } = await run(code);
      assert.equal(done.error, undefined, code);
      assert.match(stdout + stderr, expected, code);
    }
    await run('x = = 1');
    assert.equal(await shown('import sys; sys.last_type.__name__'), "'SyntaxError'");
  });

  test('a Python context has a running event loop for code that does not await, which may run another one', async () => {
    await run(`
import asyncio
found = []
async def value(loop=False):
  await asyncio.sleep(0.01)
  return asyncio.get_running_loop() if loop else 7`);
    for (const [code, value] of RUNNING_LOOP) assert.equal(await shown(code), value, code);
  });

  test('a Python context goes on with what a cell has left on the event loop', async () => {
    await run(`
import asyncio
async def late():
  await asyncio.sleep(0.05)
  open("late", "w")
asyncio.create_task(late());`);
    await eventually(() => existsSync(join(python.agent.workspace, 'late')), { because: 'the task has ended' });
    await run('async def stop(): raise SystemExit\nasyncio.create_task(stop());');
    await run('async def busy():\n  while True: await asyncio.sleep(0)\nendless = asyncio.create_task(busy());');
    assert.equal(await shown('endless.cancel()'), 'True');
  });

  test('a Python context is interrupted where a task of an earlier cell keeps the next one from beginning', async () => {
    await run(
      'kept = 3\nimport asyncio, time\nasync def hog():\n  open("hog", "w"); time.sleep(600)\nasyncio.create_task(hog());',
    );
    await eventually(() => existsSync(join(python.agent.workspace, 'hog')), { because: 'the task has begun' });
    const { done } = await python.agent.run(python.context, '1', { timeoutMs: 300 });
    assert.equal(done.error?.name, 'TimeoutError');
    assert.equal(await shown('kept'), '3');
  });

  test('a Python context has magics that reset it, end the cell and keep what they need', async () => {
    await run('gone = 1');
    for (const [code, { error, next, shows }] of MAGICS) {
      const { done } = await run(code);
      assert.equal(done.error?.name, error, `${code}: ${JSON.stringify(done.error)}`);
      if (next) assert.equal(await shown(next), shows, code);
    }
  });
});
