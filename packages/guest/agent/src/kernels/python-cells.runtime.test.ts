import assert from 'node:assert/strict';
import { test } from 'node:test';
import { fuzz } from '@cloche/testkit/fuzz';
import { describePython } from '../../testing/describe-python.ts';

/** Compares two ways of running code within one cell: outputs, errors, warnings and calls of listeners. */
const COMPARISON = `
import warnings
from functools import partial
from IPython.core.interactiveshell import InteractiveShell
from cloche_kernel.errors import to_error
shell = get_ipython()
def without_compiler(error):
  # The one of IPython is in the way to what does not compile, and its frame is all that is told of this more.
  lines = error["traceback"]
  if "codeop" in str(lines): lines = lines[next(index for index, line in enumerate(lines) if "<cell" in line):]
  return error | {"traceback": lines}
def told(run, cell):
  events, shown, kept, names = [], [], shell.publish, dict(shell.user_ns)
  listeners = {event: (lambda *given, event=event: events.append((event, [type(each).__name__ for each in given])))
    for event in ("pre_execute", "pre_run_cell", "post_execute", "post_run_cell")}
  for event, listener in listeners.items(): shell.events.register(event, listener)
  shell.publish = lambda *output: shown.append(output)
  with warnings.catch_warnings(record=True) as warned:
    warnings.simplefilter("always")
    try:
      result = run(cell)
    finally:
      shell.publish = kept
      for event, listener in listeners.items(): shell.events.unregister(event, listener)
  errors = [error and without_compiler(to_error(error)) for error in (result.error_before_exec, result.error_in_exec, shell.shown_exception)]
  shell.shown_exception = None
  left = {name: str(type(value)) for name, value in shell.user_ns.items() if name not in names and name != "__warningregistry__"}
  for name in left: del shell.user_ns[name]
  return dict(events=events, shown=shown, errors=errors, left=left, result=type(result.result).__name__, success=result.success,
    last=shell.last_execution_result is result, succeeded=shell.last_execution_succeeded, info=vars(result.info),
    warned=[str(each.message) for each in warned if "To exit" not in str(each.message)], count=result.execution_count)
`;

describePython('a plain cell', (python) => {
  const value = async (code: string) => {
    const { outputs, done } = await python.agent.run(python.context, code);
    assert.equal(done.error, undefined, JSON.stringify(done.error));
    return outputs[0]?.value;
  };

  test('a plain cell does what it does in IPython, and fails as it does there', async () => {
    const differing = await value(`${COMPARISON}
cells = ["1+1", "1+1\\n\\n", "x = 1", "None", "'text' # and more", "print('a')", "1;2", "x = 5; x", "x = 5; x;", "{1: 2}",
  "for i in range(2): i", "if True:\\n    1", "def f():\\n    return 1\\nf()", "(1,\\n2)", "'''a\\nb'''", "a = 1\\nb = 2\\na + b",
  "lambda: 0", "class A: pass", "import math", "2 ** 100_000", "[1, 2.5, {'a': {1}}]", "# nothing", "\\"\\\\d\\"", "1 is 1",
  "x = = 1", "x +", "(1", "return 1", "a = 1\\nreturn", "a = 1\\n1/0\\nb = 2", "1/0", "nothing", "del nothing", "@f", "if True:\\n1",
  "import bdb\\nraise bdb.BdbQuit", "raise SystemExit", "import sys; sys.exit(3)", "raise KeyboardInterrupt", "x = '\\\\0'\\nx",
  "class B:\\n  def __repr__(self): return 1/0\\nB()", "import sys\\nsys.displayhook(1)\\n2", "f(*)", "print 1", "a\\u0301 = 1",
  "-" * 20_000 + "1", "1" + "+1" * 20_000, "y = 1\\nx = 1" + "+1" * 20_000]
taken = [cell for cell in cells if shell.plain_cells.takes(cell)]
differing = []
for cell in taken:
  one, other = [told(run, cell) for run in (shell.plain_cells.run, partial(InteractiveShell.run_cell, shell))]
  # IPython notes nothing of a cell that is too deep for Python.
  unnoted = ("last", "count") if other["count"] is None else ()
  differing += [(cell[:80], name, one[name], other[name]) for name in one if one[name] != other[name] and name not in unnoted]
(len(cells) - len(taken), differing)`);
    assert.equal(differing, '(0, [])');
  });

  test('a plain cell has the result of IPython for any combination of its parts, also when it fails', async () => {
    await fuzz(5, async (random) => {
      const differing = await value(`${COMPARISON}
import random
chance = random.Random(${random.next()})
pieces = ["1", "x", "x = 5", "x += 1", "x: int = 3", "del x", "'a'", "'''m\\nl'''", "b'\\0'", "None", "...", "[1, {2: (3,)}]", "2 ** 70", "nan", "1e400",
  "f'{x!r:>9}'", "lambda: x", "(y := 4)", "y := 4", "print(7, end='')", "1 / 0", "raise KeyError(1)", "assert 0, 'no'", "return", "yield 1", "pass",
  "global x", "nonlocal x", "import math", "from math import *", "x is 1", r"'\\d'", r"'\\N{NOPE}'", "f(1)", "f(a=1, 2)", "*a, b = 1, 2", "f() = 1",
  "def f(a=1):\\n  return a", "class A:\\n  b = 1", "for i in range(2):\\n  i", "try:\\n  x\\nfinally:\\n  3", "if 1: x; 2", "with f: pass", "@f",
  "# note", "(1,", "[2\\n]", "1 \\\\", "x.y", "x[0]", "é = 1", r"'\\ud800'", "_", "In", "__name__", "exit()"]
def torn(cell):
  at = chance.randrange(len(cell) + 1)
  return cell[:at] + chance.choice(["", "\\n", " ", ";", ":", "(", ")", "=", "'", "\\\\", "#", "x", "1"]) + cell[at + chance.randrange(2):]
taken, differing = 0, []
for _ in range(100):
  cell = chance.choice(["\\n", ";", "; ", "\\n\\n", " + "]).join(chance.choices(pieces, k=chance.randint(1, 3)))
  if chance.random() < 0.4: cell = torn(cell)
  if not shell.plain_cells.takes(cell): continue
  taken += 1
  one, other = [told(run, cell) for run in (shell.plain_cells.run, partial(InteractiveShell.run_cell, shell))]
  # Python parses what is wrong twice, and here it is compiled once more for its error: how often it warns is left open.
  for told_of in (one, other): told_of["warned"] = set(told_of["warned"])
  differing += [(cell, name, one[name], other[name]) for name in one if one[name] != other[name]]
(taken > 50, differing[:3])`);
      assert.equal(differing, '(True, [])');
    });
  });

  test('a plain cell is left to IPython where a hook may change its result', async () => {
    const taken = await value(`
import ast
shell = get_ipython()
takes = lambda cell="1+1": shell.plain_cells.takes(cell)
before = takes()
cells = [takes(cell) for cell in ("await x", "async def f(): pass", "from __future__ import annotations", "%pwd", "", " ")]
class Doubled(ast.NodeTransformer): pass
shell.ast_transformers.append(Doubled()); transformed = takes(); shell.ast_transformers.clear()
shell.ast_node_interactivity = "all"; interactive = takes(); shell.ast_node_interactivity = "last_expr"
shell.set_custom_exc((KeyError,), lambda *given: None); custom = takes(); shell.set_custom_exc((), None)
(before, cells, transformed, interactive, custom, takes())`);
    assert.equal(taken, '(True, [False, False, False, False, False, False], False, False, False, True)');
  });

  test('the plain cell of a warm-up leaves nothing that a later cell can see', async () => {
    const { outputs } = await python.agent.run(
      await python.agent.open(),
      `
import linecache
shell = get_ipython()
with shell.warm_up(): shell.run("warmed = 1\\n1 / 0")
cells = [name for name in linecache.cache if name.startswith("<cell")]
(shell.last_execution_result, shell.last_execution_succeeded, shell.execution_count, cells, "warmed" in globals())`,
    );
    assert.equal(outputs[0]?.value, '(None, True, 0, [], False)');
  });

  test('a plain cell leaves the hook for exceptions as it was, with another cell run in it too', async () => {
    await value('import sys; get_ipython().plain_cells.run("None")');
    await value('None');
    assert.equal(await value('get_ipython().sys_excepthook is sys.__excepthook__'), 'True');
  });

  test('a plain cell shows the result of its last expression whatever the one before did to how results are shown', async () => {
    await value('import builtins, sys; sys.displayhook = lambda value: None');
    assert.equal(await value('1'), '1');
    assert.equal(await value('builtins._ = 7\n2'), '2');
    assert.equal(await value('del builtins._; get_ipython().run_cell("3"); 4'), '3');
    assert.equal(await value('"exit" in vars(builtins), "get_ipython" in vars(builtins)'), '(False, True)');
  });
});
