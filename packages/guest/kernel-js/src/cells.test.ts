import assert from 'node:assert/strict';
import { test } from 'node:test';
import { KernelProcess } from '../testing/kernel-process.ts';

async function resultsOf(...cells: string[]): Promise<(string | undefined)[]> {
  await using kernel = await KernelProcess.start();
  const results: (string | undefined)[] = [];
  for (const cell of cells) {
    const { error, result } = await kernel.run(cell);
    results.push(error ? `${error.name}: ${error.message}` : result);
  }
  return results;
}

test('the value of the last expression is the result, and a promise is awaited', async () => {
  assert.deepEqual(await resultsOf('1 + 1', 'const p = Promise.resolve(7)\np;', 'await p + 1', '"text" // why'), [
    '2',
    '7',
    '8',
    "'text'",
  ]);
});

test('undefined, declarations and empty cells give no output', async () => {
  const results = await resultsOf('undefined', 'let a = 1', '', '// nothing', 'for (const x of [1]) x', 'class A {}');
  assert.deepEqual(results, Array(6).fill(undefined));
});

test('a lone object literal is a value and a block is a block', async () => {
  assert.deepEqual(await resultsOf('{ a: 1 }', '{ let a = 2; globalThis.seen = a }', 'seen'), [
    '{ a: 1 }',
    undefined,
    '2',
  ]);
});

test('runs are counted from one', async () => {
  await using kernel = await KernelProcess.start();
  assert.equal((await kernel.run('1')).executionCount, 1);
  assert.equal((await kernel.run('syntax error')).executionCount, 2);
  assert.equal((await kernel.run('1')).executionCount, 3);
});

test('every kind of declaration persists', async () => {
  const declarations = `
    let a = 1, b
    const c = 3;
    var d = 4
    const { e, f: [g = 6], ...rest } = { e: 5, f: [], h: 7 };
    function i() { return 8 }
    async function* j() { yield 9 }
    class K { static value = 10 }
    if (true) { var l = 11 }
    for (var m = 0; m < 12; m++);
    for (var { n } of [{ n: 13 }]);
    for (var o in { p: 1 });
  `;
  const use = '[a, b, c, d, e, g, rest.h, i(), (await j().next()).value, K.value, l, m, n, o].join()';
  assert.deepEqual(await resultsOf(declarations, use), [undefined, "'1,,3,4,5,6,7,8,9,10,11,12,13,p'"]);
});

test('everything can be declared again as any kind', async () => {
  const kinds = ['let x = 1', 'const x = 2', 'function x() {}', 'class x {}', 'var x = 5', "import x from 'node:path'"];
  const cells = kinds.flatMap((first) =>
    kinds.map((second) => `${first}\n`.concat('//cell\n', second).split('//cell\n')),
  );
  await using kernel = await KernelProcess.start();
  for (const cell of cells.flat()) assert.equal((await kernel.run(cell)).error, undefined, cell);
});

test('closures of earlier cells see what later cells declare', async () => {
  assert.deepEqual(
    await resultsOf(
      'const rate = 2; function price() { return rate * base() } function base() { return 10 }',
      'price()',
      'const rate = 3; const base = () => 100',
      'price()',
    ),
    [undefined, '20', undefined, '300'],
  );
});

test('functions are hoisted, their names kept', async () => {
  assert.deepEqual(await resultsOf('const early = later();\nfunction later() { return later.name }', 'early'), [
    undefined,
    "'later'",
  ]);
});

test('a var without a value keeps the one it has', async () => {
  assert.deepEqual(await resultsOf('var count = 1', 'var count; count'), [undefined, '1']);
});

test('assigning to a constant is a TypeError, in its own cell and in later ones', async () => {
  const error = 'TypeError: Assignment to constant variable.';
  assert.deepEqual(
    await resultsOf(
      'const c = 1; c = 2',
      'c',
      'c += 1',
      'c++',
      '[c] = [3]',
      '({ c } = { c: 3 })',
      'function shadow(c) { c = 4; return c } shadow(0)',
      '{ let c = 1; c++ }',
      'let c = 5; c = 6',
    ),
    [error, '1', error, error, error, error, '4', undefined, '6'],
  );
});

test('a cell that throws halfway keeps what it had assigned', async () => {
  assert.deepEqual(await resultsOf('let before = 1; throw new Error("stop"); let after = 2', '[before, after]'), [
    'Error: stop',
    '[ 1, undefined ]',
  ]);
});

test('statements without semicolons stay apart', async () => {
  const cell = `
    let s = 1
    let [t, u] = [2, 3]
    const { v } = { v: 4 }
    await null
    s++
    ;[s, t, u, v].join()
  `;
  assert.deepEqual(await resultsOf(cell), ["'2,2,3,4'"]);
});

test('await works in every position at the top level', async () => {
  const cell = `
    const list = [await 1, ...(await [2])]
    for await (const item of [3, Promise.resolve(4)]) list.push(item)
    if (await true) list.push(await (async () => 5)())
    list.join()
  `;
  assert.deepEqual(await resultsOf(cell), ["'1,2,3,4,5'"]);
});

test('undeclared assignments make globals unless the cell is strict', async () => {
  assert.deepEqual(await resultsOf('loose = 1', 'loose', '"use strict"; tight = 1'), [
    '1',
    '1',
    'ReferenceError: tight is not defined',
  ]);
});

test('a using declaration disposes of its value when the cell ends', async () => {
  const cell = 'let log = []; { using r = { [Symbol.dispose]: () => log.push("gone") }; log.push("here") } log.join()';
  assert.deepEqual(await resultsOf(cell), ["'here,gone'"]);
});

test('a name declared by a cell may be that of a global', async () => {
  assert.deepEqual(
    await resultsOf(
      'class Promise {} ; const JSON = 1; let process; const Buffer = 0; let globalThis = 2; const Map = 3',
      '[1].length',
    ),
    [undefined, '1'],
  );
});

test('a cell that nests too deeply is an error and not the end', async () => {
  const parentheses = `${'('.repeat(100_000)}1${')'.repeat(100_000)}`;
  const [first, second, next] = await resultsOf(parentheses, `${'1 + '.repeat(50_000)} 1`, '1');
  assert.equal(first, 'SyntaxError: Not enough stack space to parse input');
  assert.match(String(second), /^(Range|Syntax)Error/);
  assert.equal(next, '1');
});

test('expressions with await, calls and patterns keep their shape around renamed names and constants', async () => {
  assert.deepEqual(
    await resultsOf(
      'const URL = Promise.resolve(1), Event = [2]; const c = 3; let o = { URL, Event }',
      '[await URL, ...Event, await o.URL, { Event }.Event[0], typeof await URL].join()',
      'var fetch; for (var Headers of [5]); ({ Blob: fetch, File = 6 } = { Blob: 4 }); var File; [fetch, File, Headers].join()',
      'await c++',
      'function Request() { return Request.name } class Response { static me = Response } [Request(), Response.me === Response].join()',
    ),
    [undefined, "'1,2,1,2,number'", "'4,6,5'", 'TypeError: Assignment to constant variable.', "'Request,true'"],
  );
});

test('an error message shows a renamed name as it was written', async () => {
  const [message] = await resultsOf('const fetch = 5; fetch()');
  assert.equal(message?.replace('\u200c', ''), 'TypeError: fetch is not a function');
});

test('replaced built-ins do not break later cells', async () => {
  const cell = `
    Promise.prototype.then = Promise.resolve = null;
    globalThis.JSON = globalThis.Promise = globalThis.setImmediate = globalThis.process = undefined;
    Error.prepareStackTrace = undefined;
  `;
  assert.deepEqual(await resultsOf(cell, 'await 7', 'throw new Error("x")', '({ a: 1 })'), [
    undefined,
    '7',
    'Error: x',
    '{ a: 1 }',
  ]);
});

test('a script with an interpreter line, a trailing comment and a top-level using runs', async () => {
  const cell =
    '#!/usr/bin/env node\nlet log = ""\nusing r = { [Symbol.dispose]() { log += "gone" } }\nlog += "here" // end';
  assert.deepEqual(await resultsOf(cell, 'log'), ["'here'", "'heregone'"]);
});

test('worker threads of a cell print and answer', async () => {
  await using kernel = await KernelProcess.start();
  const { stdout, result } = await kernel.run(`
    const { Worker } = require('node:worker_threads');
    const worker = new Worker('console.log("in a worker"); require("node:worker_threads").parentPort.postMessage(5)', { eval: true });
    const exited = new Promise((resolve) => worker.once('exit', resolve));
    const answer = await new Promise((resolve) => worker.once('message', resolve));
    await exited;
    answer
  `);
  assert.equal(result, '5');
  assert.equal(stdout, 'in a worker\n');
});
