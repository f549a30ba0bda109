import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { describe, it } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { processorMs } from './processor-time.ts';
import { untilIdle } from './until-idle.ts';

const WINDOW_MS = 1_000;

/** Returns whether a process counted as idle within six windows. */
async function isIdle(program: string): Promise<boolean> {
  const child = spawn(process.execPath, ['-e', program]);
  const stop = new AbortController();
  try {
    const idle = untilIdle(() => processorMs(child.pid), { windowMs: WINDOW_MS, mostWindows: 20 }, stop.signal).then(
      () => !stop.signal.aborted,
    );
    return await Promise.race([idle, delay(6 * WINDOW_MS, false)]);
  } finally {
    stop.abort();
    child.kill('SIGKILL');
  }
}

describe('a process', () => {
  it('a process that computes is not idle, however long it takes', async () =>
    assert.equal(await isIdle('for (;;);'), false));
  it('a process whose children compute one after another is not idle', async () =>
    assert.equal(
      await isIdle(
        `for (;;) require('child_process').spawnSync('timeout', ['0.3', 'sh', '-c', 'while :; do :; done'])`,
      ),
      false,
    ));
  it('a process that waits is idle', async () => assert.equal(await isIdle('setInterval(() => undefined, 500)'), true));
  it('a process that has ended is idle', async () => assert.equal(await isIdle(''), true));
});
