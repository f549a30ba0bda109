import assert from 'node:assert/strict';
import { test } from 'node:test';
import { KernelProcess } from '../testing/kernel-process.ts';

test('descriptor 3 is no longer the socket, and closing it does not cut the kernel off', async () => {
  await using kernel = await KernelProcess.start();
  const { result } = await kernel.run(`
    const fs = require('node:fs');
    let found;
    try { found = fs.readlinkSync('/proc/self/fd/3'); fs.closeSync(3) } catch (error) { found = error.code }
    found
  `);
  assert.doesNotMatch(String(result), /socket/);
  assert.equal((await kernel.run('1')).result, '1');
});

test('children inherit nothing but the standard streams', async () => {
  await using kernel = await KernelProcess.start();
  const { stdout } = await kernel.run(`
    require('node:child_process').spawnSync('sh', ['-c', 'ls -l /proc/self/fd'], { stdio: 'inherit' });
  `);
  const sockets = stdout.split('\n').filter((line) => line.includes('socket:'));
  const numbers = sockets.map((line) => / (\d+) -> /.exec(line)?.[1]);
  assert.deepEqual(numbers, ['1', '2']);
});

test('a kernel whose agent is gone ends, in a loop too', { timeout: 20_000 }, async () => {
  const kernel = await KernelProcess.start();
  kernel.execute('console.log("begun"); while (true) {}');
  await kernel.until(() => kernel.stdout.includes('begun'));
  const exited = new Promise((resolve) => kernel.child.once('exit', (_code, signal) => resolve(signal)));
  kernel.hangUp();
  assert.equal(await exited, 'SIGKILL');
});

test('the worker and its port are not to be found on the main thread', async () => {
  await using kernel = await KernelProcess.start();
  const { result } = await kernel.run(`
    const { parentPort, workerData, isMainThread } = require('node:worker_threads');
    [parentPort, workerData, isMainThread, process.argv.length].join()
  `);
  assert.equal(result, "',,true,1'");
});
