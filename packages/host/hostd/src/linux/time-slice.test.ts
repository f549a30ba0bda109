import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { release } from 'node:os';
import { describe, it } from 'node:test';
import { LONG_SLICE_NS, SHORT_SLICE_NS, setTimeSlice } from './time-slice.ts';

/** Returns `se.slice` of a thread, where this kernel shows it. */
function sliceOf(pid: number): string | undefined {
  return /^se\.slice\s*:\s*(\d+)/m.exec(readFileSync(`/proc/${pid}/sched`, 'utf8'))?.[1];
}

const [major = 0, minor = 0] = release().split('.').map(Number);
const hasSlices = major > 6 || (major === 6 && minor >= 12);

describe('the time slice of a thread', () => {
  it('the time slice of a thread is set, and inherited by processes that the thread starts', {
    skip: !hasSlices && 'Linux before 6.12',
  }, async () => {
    const child = spawn('sh', ['-c', 'read _; sleep 60 & echo $!; wait']);
    const ended = once(child, 'exit');
    const pid = child.pid ?? assert.fail('no process');
    for (const slice of [SHORT_SLICE_NS, LONG_SLICE_NS]) {
      setTimeSlice(pid, slice);
      const shown = sliceOf(pid);
      if (shown !== undefined) assert.equal(shown, String(slice));
    }
    child.stdin.write('\n');
    const [line] = await once(child.stdout, 'data');
    const grandchild = Number(line);
    assert.equal(sliceOf(grandchild), sliceOf(pid));
    process.kill(grandchild, 'SIGKILL');
    child.kill('SIGKILL');
    await ended;
  });

  it('the time slice of a thread is not set for a thread that has ended', async () => {
    const child = spawn('true');
    await once(child, 'exit');
    setTimeSlice(child.pid ?? assert.fail('no process'), SHORT_SLICE_NS);
  });
});
