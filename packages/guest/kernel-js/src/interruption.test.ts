import assert from 'node:assert/strict';
import { test } from 'node:test';
import { KernelProcess, type RunRecord } from '../testing/kernel-process.ts';

/** Interrupts `code` after it has printed `begun`. Adds that at its start if the code does not print it. */
async function interrupted(kernel: KernelProcess, code: string): Promise<RunRecord> {
  const runId = kernel.execute(code.includes('begun') ? code : `console.log('begun'); ${code}`);
  await kernel.until(() => kernel.stdout.includes('begun'));
  kernel.interrupt(runId);
  return kernel.finished(runId);
}

const endless: Record<string, string> = {
  'a loop': 'while (true) {}',
  'a loop after an await': 'await 0; while (true) {}',
  'a loop after a timer': 'await new Promise((resolve) => setTimeout(resolve, 5)); while (true) {}',
  'a wait for something that never comes': 'await new Promise(() => {})',
  'a loop in a timer': 'setTimeout(() => { console.log("begun"); while (true) {} }); await new Promise(() => {})',
  'a loop in an interval':
    'setInterval(() => { console.log("begun"); while (true) {} }, 1); await new Promise(() => {})',
  'a loop that swallows every error': 'while (true) { try { while (true) {} } catch {} finally { continue } }',
  'a loop in an immediate':
    'setImmediate(() => { console.log("begun"); while (true) {} }); await new Promise(() => {})',
  'a loop of awaits': 'while (true) await 0',
  'a loop of awaits in a function': 'async function f() { while (true) { await 0 } } await f()',
  'a loop in a function of promises': 'const spin = () => Promise.resolve().then(spin); await spin()',
  'a loop of ticks': 'const tick = () => process.nextTick(tick); tick(); await new Promise(() => {})',
  'a loop in a getter of the result': '({ get [Symbol.toStringTag]() { while (true) {} } })',
  'a loop while the result is shown': '({ [Symbol.for("nodejs.util.inspect.custom")]() { while (true) {} } })',
  'a blocking wait': 'Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0)',
  'a flood of output': 'while (true) console.log("flood")',
  'a flood of displays': 'while (true) display("flood")',
  'a regular expression that backtracks': '/(a+)+$/.test("a".repeat(60) + "b")',
};

for (const [name, code] of Object.entries(endless)) {
  test(`${name} is interrupted, the variables stay, and the next result is its own`, { timeout: 20_000 }, async () => {
    await using kernel = await KernelProcess.start();
    await kernel.run('const kept = { value: 42 }; let ticks = 0; setInterval(() => ticks++, 2)');

    const { error, outputs } = await interrupted(kernel, code);
    assert.equal(error?.name, 'InterruptedError');
    assert.deepEqual(
      outputs.filter(({ role }) => role === 'result'),
      [],
    );

    const next = await kernel.run(
      'const t = ticks; while (ticks === t) await new Promise((r) => setTimeout(r, 1)); kept.value',
    );
    assert.equal(next.error, undefined);
    assert.equal(next.result, '42');
    assert.equal(next.stdout, '');
    assert.equal(kernel.frames.filter(({ type }) => type === 'done').length, 3);
  });
}

test('what an interrupted run still does is never a later run’s', async () => {
  await using kernel = await KernelProcess.start();
  await interrupted(
    kernel,
    `
    globalThis.release = Promise.withResolvers();
    globalThis.log = [];
    setTimeout(() => { console.log('late timer'); display('late timer'); log.push('timer') }, 20);
    try { await release.promise; log.push('resumed'); console.log('late'); display('late') } finally { log.push('finally') }
    'late result'
    `,
  );
  const next = await kernel.run(`
    release.resolve();
    while (log.length < 2) await new Promise((resolve) => setTimeout(resolve, 1));
    log.sort().join()
  `);
  assert.equal(next.result, "'finally,timer'");
  assert.equal(next.stdout, '');
  assert.equal(next.outputs.length, 1);
  assert.equal(kernel.frames.filter(({ type }) => type === 'done').length, 2);
});

test('what fails late in an interrupted run is not on standard error of a later one', async () => {
  await using kernel = await KernelProcess.start();
  await interrupted(
    kernel,
    `
    globalThis.late = Promise.withResolvers();
    setTimeout(() => { throw new Error('late error') }, 30);
    setTimeout(() => { Promise.reject(new Error('late rejection')); setTimeout(late.resolve, 5) }, 30);
    await new Promise(() => {});
    `,
  );
  const next = await kernel.run('await late.promise; 1');
  assert.equal(next.result, '1');
  assert.equal(next.stderr, '');
});

test('functions of an interrupted run stop at their next wait, in silence', async () => {
  await using kernel = await KernelProcess.start();
  const { stderr } = await interrupted(
    kernel,
    `
    globalThis.rounds = 0;
    (async () => { while (true) { await new Promise((resolve) => setTimeout(resolve, 1)); rounds++ } })();
    await new Promise(() => {});
    `,
  );
  assert.equal(stderr, '');
  const next = await kernel.run(`
    const sleep = () => new Promise((resolve) => setTimeout(resolve, 20));
    await sleep(); const before = rounds; await sleep(); rounds - before
  `);
  assert.equal(next.result, '0');
  assert.equal(next.stderr, '');
});

test('an interruption that names another run does nothing', async () => {
  await using kernel = await KernelProcess.start();
  const first = kernel.execute('1');
  await kernel.finished(first);
  kernel.interrupt(first);
  const second = kernel.execute('await new Promise((resolve) => setTimeout(resolve, 50)); 2');
  kernel.interrupt(first);
  assert.equal((await kernel.finished(second)).result, '2');
});

test('an interruption that crosses the end of its run leaves the next one alone', async () => {
  await using kernel = await KernelProcess.start();
  for (let round = 0; round < 30; round += 1) {
    const runId = kernel.execute(`for (const end = Date.now() + ${round}; Date.now() < end; ); 'first'`);
    setTimeout(() => kernel.interrupt(runId), round).unref();
    const { error, result } = await kernel.finished(runId);
    assert.ok(error ? error.name === 'InterruptedError' : result === "'first'");
    const next = await kernel.run('"second"');
    assert.equal(next.result, "'second'", JSON.stringify(next));
  }
});

test('many interruptions of one run end it once', async () => {
  await using kernel = await KernelProcess.start();
  const runId = kernel.execute('while (true) {}');
  for (let times = 0; times < 5; times += 1) kernel.interrupt(runId);
  assert.equal((await kernel.finished(runId)).error?.name, 'InterruptedError');
  assert.equal((await kernel.run('1')).result, '1');
  assert.equal(kernel.frames.filter(({ type }) => type === 'done').length, 2);
});

test('a program that a cell waits for synchronously does not hold up its interruption', {
  timeout: 20_000,
}, async () => {
  await using kernel = await KernelProcess.start();
  const { error } = await interrupted(kernel, 'require("node:child_process").execSync("sleep 1000")');
  assert.equal(error?.name, 'InterruptedError');
  assert.equal((await kernel.run('1')).result, '1');
});

test('a loop that an earlier cell left in a timer is interrupted with the run that it holds up', async () => {
  await using kernel = await KernelProcess.start();
  await kernel.run('globalThis.ran = false; setTimeout(() => { console.log("spinning"); while (true) {} }, 20)');
  await kernel.until(() => kernel.stdout.includes('spinning'));
  const runId = kernel.execute('ran = true');
  kernel.interrupt(runId);
  assert.equal((await kernel.finished(runId)).error?.name, 'InterruptedError');
  assert.equal((await kernel.run('ran')).result, 'false');
});

test('process.exit ends the run, uncatchably, and names its code', async () => {
  await using kernel = await KernelProcess.start();
  for (const code of [
    'process.exit(3)',
    'try { process.exit(3) } catch {} console.log("on")',
    'setTimeout(() => process.exit(3)); await new Promise(() => {})',
    'process.exitCode = 3; await null; process.exit()',
  ]) {
    const { error, stdout } = await kernel.run(`var kept = 1; ${code}`);
    assert.equal(error?.name, 'ExitError');
    assert.match(error.message, /process\.exit\(3\)/);
    assert.equal(stdout, '');
  }
  assert.equal((await kernel.run('kept')).result, '1');
});
