import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { describe, it } from 'node:test';
import { isComplete } from './is-complete.ts';

/** Code as it is typed, up to a line after which a person waits for the prompt. */
const PYTHON = [
  'x = 1',
  'print(1',
  'print(1,\n  2)',
  'if x:',
  'if x:\n  y()',
  'if x:\n  y()\n',
  'def f(a,\n      b):',
  'def f():\n  """\n  text',
  'def f():\n  """\n  text\n  """\n  return 1\n',
  '@decorator',
  '@decorator\ndef f(): pass\n',
  'x = [1, 2,',
  'x = {"a": 1}',
  "s = '''a",
  "s = '''a\n'''",
  's = "it\'s # no comment"',
  's = "("',
  'x = 1  # (',
  'x = 1 + \\',
  'x = 1 + \\\n2',
  'for i in range(3):\n  print(i)\n\n',
  'while True:\n  break',
  'class A:\n  x = 1\n',
  'f"{x:>10}"',
  'lambda: 0',
  'a[1:',
  'a[1:2]',
  'with open("a") as f:',
];

describe('typed Python', () => {
  it('typed Python goes on where the interpreter of Python lets it go on', () => {
    const program = `import codeop, json, sys
def complete(code):
    try: return codeop.compile_command(code, symbol="single") is not None
    except (SyntaxError, ValueError): return True
print(json.dumps([complete(code) for code in json.load(sys.stdin)]))`;
    const input = JSON.stringify(PYTHON);
    const { stdout } = spawnSync('python3', ['-W', 'ignore', '-c', program], { input, encoding: 'utf8' });
    const oracle: boolean[] = JSON.parse(stdout);
    for (const [index, code] of PYTHON.entries())
      assert.equal(isComplete('python', code), oracle[index], JSON.stringify(code));
  });

  it('typed Python waits for an empty line in a cell magic, and runs a line magic at once', () => {
    const typed = ['%%bash', '%%bash\nls', '%%bash\nls\n', '%time x', '!ls', ''];
    const complete = typed.map((code) => isComplete('python', code));
    assert.deepEqual(complete, [false, false, true, true, true, true]);
  });
});

describe('typed JavaScript', () => {
  for (const [code, complete] of [
    ['1 + 1', true],
    ['const f = () => {', false],
    ['const f = () => {\n  return 1;\n}', true],
    ['const f = () =>', false],
    ['[1, 2,', false],
    ['`a b', false],
    ['`a\n`', true],
    ['"{"', true],
    ["'it\\'s ('", true],
    ['f( // )', false],
    ['/* (', false],
    ['/* ( */ 1', true],
    ['a &&', false],
    ['a.', false],
    ['i++', true],
    ['x = ', false],
    ['x = 1; // and so on +', true],
    ['interface A {', false],
    ['type A = { b: string }', true],
    ['a ?\n', true],
  ] as const)
    it(`${JSON.stringify(code)} ${complete ? 'runs' : 'goes on'}`, () =>
      assert.equal(isComplete('typescript', code), complete));
});
