import assert from 'node:assert/strict';
import { test } from 'node:test';
import { KernelProcess } from '../testing/kernel-process.ts';

test('everything printed is on the pipes when the run is over', async () => {
  await using kernel = await KernelProcess.start();
  const { stdout, stderr } = await kernel.run(`
    console.log('log', { a: 1 }); console.error('error'); console.warn('warn');
    console.dir([1]); console.table([{ a: 1 }]); console.group('g'); console.log('in'); console.groupEnd();
    process.stdout.write('raw\\n', () => {}); process.stdout.write(Buffer.from('bytes\\n'));
    console.time('t'); console.timeEnd('t'); console.assert(false, 'claim');
    require('node:child_process').execSync('echo child', { stdio: 'inherit' });
  `);
  assert.match(stdout, /^log \{ a: 1 \}\n\[ 1 \]\n┌─/);
  assert.match(stdout, /g\n {2}in\nraw\nbytes\nt: [\d.]+ms\nchild\n$/);
  assert.equal(stderr, 'error\nwarn\nAssertion failed: claim\n');
});

test('50 MB of console.log arrive whole and before the end', { timeout: 60_000 }, async () => {
  await using kernel = await KernelProcess.start();
  const line = 'x'.repeat(1023);
  const { stdout } = await kernel.run(`for (let i = 0; i < ${50 * 1024}; i++) console.log('${line}')`);
  assert.equal(stdout.length, 50 * 1024 * 1024);
  assert.ok(stdout.endsWith(`${line}\n`));
});

test('a child that makes the shared pipe non-blocking loses no output', { timeout: 60_000 }, async () => {
  await using kernel = await KernelProcess.start();
  const { stdout } = await kernel.run(`
    const { DynamicLibrary } = require('node:ffi');
    const fcntl = new DynamicLibrary(null).getFunction('fcntl', { arguments: ['i32', 'i32', 'i32'], return: 'i32' });
    fcntl(1, 4, 0o4000 | 2);
    for (let i = 0; i < 20; i++) console.log('y'.repeat(1024 * 1024 - 1));
  `);
  assert.equal(stdout.length, 20 * 1024 * 1024);
});

test('standard input is at its end', async () => {
  await using kernel = await KernelProcess.start();
  const { result } = await kernel.run('let text = ""; for await (const c of process.stdin) text += c; text.length');
  assert.equal(result, '0');
});

test('a stream can be piped to standard output more than once', async () => {
  await using kernel = await KernelProcess.start();
  const cell = `await new Promise((done) => require('node:stream').Readable.from(['a', 'b']).on('end', done).pipe(process.stdout))`;
  await kernel.run(cell);
  const { stdout } = await kernel.run(`${cell}; console.log('c')`);
  assert.equal(stdout, 'abc\n');
});

test('plain data is also JSON and anything else is text alone', async () => {
  await using kernel = await KernelProcess.start();
  const formsOf = async (cell: string) => (await kernel.run(cell)).outputs[0]?.forms;
  assert.deepEqual(await formsOf('({ a: [1, null, "x"] })'), {
    'text/plain': "{ a: [ 1, null, 'x' ] }",
    'application/json': { a: [1, null, 'x'] },
  });
  for (const cell of [
    'new Map()',
    '[undefined]',
    '[,1]',
    '({ d: new Date(0) })',
    '[NaN]',
    '[1n]',
    'const c = []; c[0] = c; c',
  ]) {
    assert.deepEqual(Object.keys((await formsOf(cell)) ?? {}), ['text/plain'], cell);
  }
  const large = await formsOf('Array.from({ length: 100000 }, (_, i) => i)');
  assert.deepEqual(Object.keys(large ?? {}), ['text/plain']);
  assert.match(String(large?.['text/plain']), /99900 more items/);
});

test('display shows values and forms in order, before the result', async () => {
  await using kernel = await KernelProcess.start();
  const { outputs } = await kernel.run(`
    display([1]); display({ 'text/html': '<b>b</b>', 'text/plain': 'b' }); display.html('<i>i</i>');
    display.markdown('# m'); display.svg('<svg/>'); display.latex('x'); display.json({ a: 1 });
    display.png(Buffer.from('png')); display.png('cG5n'); display({ 'image/png': new Uint8Array([1]) });
    'last'
  `);
  assert.deepEqual(
    outputs.map(({ role, forms }) => [role, forms]),
    [
      ['display', { 'text/plain': '[ 1 ]', 'application/json': [1] }],
      ['display', { 'text/html': '<b>b</b>', 'text/plain': 'b' }],
      ['display', { 'text/html': '<i>i</i>' }],
      ['display', { 'text/markdown': '# m' }],
      ['display', { 'image/svg+xml': '<svg/>' }],
      ['display', { 'text/latex': 'x' }],
      ['display', { 'application/json': { a: 1 } }],
      ['display', { 'image/png': 'cG5n' }],
      ['display', { 'image/png': 'cG5n' }],
      ['display', { 'image/png': 'AQ==' }],
      ['result', { 'text/plain': "'last'" }],
    ],
  );
});

test('a value that knows how to be shown is shown its way', async () => {
  await using kernel = await KernelProcess.start();
  const { outputs } = await kernel.run(`
    const own = { [Symbol.for('cloche.display')]: () => ({ 'text/html': 'own' }) };
    const theirs = { [Symbol.for('Jupyter.display')]: async () => ({ 'text/html': 'theirs' }) };
    await display(theirs);
    own
  `);
  assert.deepEqual(
    outputs.map(({ forms }) => forms),
    [{ 'text/html': 'theirs' }, { 'text/html': 'own' }],
  );
});

test('an output that no frame can hold is left out and said so', async () => {
  await using kernel = await KernelProcess.start();
  const { outputs, error } = await kernel.run('display.html("x".repeat(65 * 1024 * 1024)); "next"');
  assert.equal(error, undefined);
  assert.match(String(outputs[0]?.forms['text/plain']), /left out/);
  assert.equal(outputs[1]?.forms['text/plain'], "'next'");
});

test('a result that cannot be shown is the error of its run', async () => {
  await using kernel = await KernelProcess.start();
  const { error } = await kernel.run(
    '({ [Symbol.for("nodejs.util.inspect.custom")]() { throw new RangeError("no") } })',
  );
  assert.equal(error?.name, 'RangeError');
});
