import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { describe, it } from 'node:test';
import { killProcessIf } from './process-identity.ts';

describe('a process is killed by its number', () => {
  it('only if it is still the intended process', async () => {
    const child = spawn('sleep', ['60']);
    const ended = once(child, 'exit');
    const pid = child.pid ?? assert.fail('no process');
    killProcessIf(pid, () => false);
    assert.doesNotThrow(() => process.kill(pid, 0));
    killProcessIf(pid, () => true);
    assert.deepEqual(await ended, [null, 'SIGKILL']);
  });

  it('a process is killed by its number and the call succeeds if the process has ended', async () => {
    const child = spawn('true');
    await once(child, 'exit');
    killProcessIf(child.pid ?? assert.fail('no process'), () => assert.fail('looked at'));
  });
});
