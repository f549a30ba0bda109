import assert from 'node:assert/strict';
import { test } from 'node:test';
import { describePython } from '../../testing/describe-python.ts';

/** Ways to print a line of `thread` and `n`, all by one call. */
const CALLS: readonly string[] = [
  'print("task", thread, n, "done")',
  'print("task", thread, n, "done", sep=" ", end="\\n", flush=True)',
  'print(f"task {thread} {n} done")',
  'print("task", thread, n, "done", file=sys.stderr)',
  'print(*("task " + str(thread)).split(), n, "done")',
  'sys.stdout.write(f"task {thread} {n} done\\n")',
  'logging.getLogger("tasks").warning("task %d %d done", thread, n)',
  'print("task", thread, n, "x" * 5_000, "done")',
];

describePython('the standard streams of a Python context', (python) => {
  const run = (code: string) => python.agent.run(python.context, code);

  test('the standard streams of a Python context keep the lines of eight threads whole', async () => {
    for (const call of CALLS) {
      const { stdout, stderr, done } = await run(`
import logging, sys, threading
logging.getLogger("tasks").handlers = [logging.StreamHandler(sys.stderr)]
logging.getLogger("tasks").propagate = False
def work(thread):
  for n in range(100): ${call}
threads = [threading.Thread(target=work, args=(each,)) for each in range(8)]
for each in threads: each.start()
for each in threads: each.join()`);
      assert.equal(done.error, undefined, call);
      const lines = (stdout + stderr).trimEnd().split('\n');
      const torn = lines.filter((line) => !/^task \d \d+ (x+ )?done$/.test(line));
      assert.deepEqual([lines.length, torn.map((line) => line.slice(0, 80))], [800, []], call);
    }
  });

  test('the standard streams of a Python context send what one call prints as one event, with or without a newline', async () => {
    for (const [code, text] of [
      ['print("a")', 'a\n'],
      ['print("a", 1, [2])', 'a 1 [2]\n'],
      ['print("a", "b", sep="-", end="!")', 'a-b!'],
      ['print()', '\n'],
      ['print("a\\nb", "c")', 'a\nb c\n'],
      ['import sys; sys.stdout.writelines(["a\\n"])', 'a\n'],
    ] as const) {
      const { events } = await run(code);
      const printed = events.flatMap((event) => (event.type === 'stdout' ? [event.data] : []));
      assert.deepEqual(printed, [text], code);
    }
  });

  test('the standard streams of a Python context print as Python does', async () => {
    const { stdout } = await run(`
import builtins, inspect, io, json, pickle
from contextlib import redirect_stdout
caught = []
for arguments in ({"sep": 1}, {"end": b""}, {"unknown": 1}, {"file": 3}):
  try: print("a", "b", **arguments)
  except Exception as error: caught.append(type(error).__name__)
class Half:
  def __str__(self): raise ValueError
try: print("before", Half())
except ValueError: print("|")
with redirect_stdout(io.StringIO()) as other: print("else", "where")
import sys; kept, sys.stdout = sys.stdout, None
print("nowhere")
sys.stdout = kept
print(json.dumps([caught, other.getvalue(), pickle.loads(pickle.dumps(print)) is builtins.print, str(inspect.signature(print))[:15]]))`);
    const errors = ['TypeError', 'TypeError', 'TypeError', 'AttributeError'];
    const [before, found] = stdout.split('\n');
    assert.equal(before, 'before |');
    assert.deepEqual(JSON.parse(found ?? ''), [errors, 'else where\n', true, "(*args, sep=' '"]);
  });

  test('the standard streams of a Python context take the text of children that were forked while threads print', async () => {
    const { stdout, done } = await run(`
import os, threading
def work():
  while not over: print("thread")
over = False
threads = [threading.Thread(target=work) for _ in range(2)]
for each in threads: each.start()
for _ in range(20):
  pid = os.fork()
  if pid == 0:
    print("child"); os._exit(0)
  os.waitpid(pid, 0)
over = True
for each in threads: each.join()`);
    assert.equal(done.error, undefined);
    assert.equal(stdout.split('\n').filter((line) => line === 'child').length, 20);
  });
});
