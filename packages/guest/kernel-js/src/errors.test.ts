import assert from 'node:assert/strict';
import { test } from 'node:test';
import { KernelProcess } from '../testing/kernel-process.ts';

test('a traceback names lines and columns as they were written', async () => {
  await using kernel = await KernelProcess.start();
  await kernel.run('const unrelated = 1');
  const { error } = await kernel.run(`import path from 'node:path'
let a = 1, b = 2
function outer() {
  return inner(a)
}
const inner = () => {
  throw new RangeError('deep')
}
outer()`);
  assert.deepEqual(error, {
    name: 'RangeError',
    message: 'deep',
    traceback: ['RangeError: deep', '    at inner (cell-2:7:9)', '    at outer (cell-2:4:10)', '    at cell-2:9:1'],
  });
});

test('a traceback spans cells, awaits and the stack that user code reads', async () => {
  await using kernel = await KernelProcess.start();
  await kernel.run('async function fails() {\n  await null\n  throw new Error("async")\n}');
  const { error } = await kernel.run('\n  await fails()');
  assert.deepEqual(error?.traceback, ['Error: async', '    at fails (cell-1:3:9)', '    at async cell-2:2:3']);
  const { result } = await kernel.run('\n\n new Error("own").stack.split("\\n")[1].trim()');
  assert.equal(result, "'at cell-3:3:2'");
});

test('a TypeScript traceback names lines of the TypeScript', async () => {
  await using kernel = await KernelProcess.start('typescript');
  const { error } = await kernel.run(`interface Point {
  x: number
}
enum Kind { A, B }

function check(p: Point): never {
  throw new TypeError('bad ' + p.x)
}
check({ x: 1 })`);
  assert.deepEqual(error?.traceback, ['TypeError: bad 1', '    at check (cell-1:7:9)', '    at cell-1:9:1']);
});

test('a syntax error shows where', async () => {
  for (const language of ['javascript', 'typescript'] as const) {
    await using kernel = await KernelProcess.start(language);
    const { error } = await kernel.run('let é = "ü"\nlet x = ;');
    assert.equal(error?.name, 'SyntaxError');
    assert.deepEqual(error.traceback.slice(0, 3), ['cell-1:2:9', 'let x = ;', '        ^']);
    assert.equal((await kernel.run('1')).result, '1');
  }
});

test('causes, fields and classes of errors are shown', async () => {
  await using kernel = await KernelProcess.start();
  const { error } = await kernel.run(`
    class QuotaError extends Error { limit = 5 }
    throw new QuotaError('over', { cause: new Error('root') })
  `);
  assert.equal(error?.name, 'QuotaError');
  assert.match(error.traceback.join('\n'), /limit: 5[\s\S]*\[cause\]: Error: root/);
});

test('anything can be thrown', async () => {
  await using kernel = await KernelProcess.start();
  const messages = [];
  for (const cell of [
    'throw "x"',
    'throw undefined',
    'throw { a: 1 }',
    'await Promise.reject(null)',
    'Promise.reject(3)',
  ]) {
    const { error } = await kernel.run(cell);
    assert.equal(error?.name, 'UncaughtValue');
    messages.push(error.message);
  }
  assert.deepEqual(messages, ['x', 'undefined', '{ a: 1 }', 'null', '3']);
  const { error } = await kernel.run('throw new Proxy(new Error("p"), { get() { throw 1 } })');
  assert.equal(typeof error?.message, 'string');
});

test('an uncaught error is printed on standard error and ends nothing', async () => {
  await using kernel = await KernelProcess.start();
  const { stderr, result, error } = await kernel.run(`
    setTimeout(() => { throw new Error('in a timer') }, 1);
    Promise.reject(new Error('in a promise'));
    new (require('node:events'))().emit('error', new Error('event')) || 0
  `);
  assert.equal(error?.message, 'event');
  assert.equal(result, undefined);
  await kernel.run('await new Promise((resolve) => setTimeout(resolve, 20))');
  assert.match(stderr + kernel.stderr, /Uncaught Error: in a promise\n {4}at cell-1:3:/);
  assert.match(stderr + kernel.stderr, /Uncaught Error: in a timer\n {4}at .*cell-1:2:/);
});

test('an uncaught rejection is printed before the run is over', async () => {
  await using kernel = await KernelProcess.start();
  for (const cell of ['Promise.reject(new Error("lost")); 5', 'await null; Promise.reject(new Error("lost")); 5']) {
    const { stderr, result } = await kernel.run(cell);
    assert.equal(result, '5');
    assert.match(stderr, /^Uncaught Error: lost\n {4}at cell-\d:1:/);
  }
});

test('deep recursion is an error and not the end', async () => {
  await using kernel = await KernelProcess.start();
  assert.equal((await kernel.run('function f() { f() } f()')).error?.name, 'RangeError');
  assert.equal((await kernel.run('async function g() { await g() } await g()')).error?.name, 'RangeError');
  assert.equal((await kernel.run('1')).result, '1');
});
