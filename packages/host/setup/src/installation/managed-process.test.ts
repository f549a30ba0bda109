import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { it } from 'node:test';
import { eventually } from '@cloche/testkit/eventually';
import { ManagedProcess } from './managed-process.ts';
import type { PartCommand } from './part-process.ts';
import { RotatingLog } from './rotating-log.ts';

it('a part that cannot be started again, nor be put into its group, is tried again, and nothing else ends', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'cloche-part-'));
  const log = new RotatingLog(join(folder, 'part.log'));
  const lines: string[] = [];
  let starts = 0;
  const part = new ManagedProcess({
    name: 'egress',
    get command(): PartCommand {
      starts += 1;
      // Node.js refuses an argument with a NUL byte, as the kernel refuses a process without memory.
      const program = starts === 2 ? 'a\0b' : 'setInterval(() => undefined, 1000)';
      return { command: [process.execPath, ['-e', program]], env: {} };
    },
    log,
    ready: async () => undefined,
    readyTimeoutMs: 60_000,
    stopGraceMs: 60_000,
    onSpawn: () => {
      if (starts > 1) throw new Error('the group is full');
    },
    supervise: true,
    report: (line) => lines.push(line),
  });
  try {
    await part.start();
    const first = part.pid;
    part.kill('SIGKILL');
    await eventually(() => part.pid !== undefined && part.pid !== first, { because: 'it was started again' });
    assert.equal(starts, 3);
    assert.match(lines.join('\n'), /egress ended by SIGKILL.*\n.*egress could not run: .*\n.*the group is full/);
  } finally {
    await part.stop();
    log.close();
    rmSync(folder, { recursive: true });
  }
});
