import assert from 'node:assert/strict';
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { after, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { eventually } from '@cloche/testkit/eventually';
import { childrenOf, commandLine } from '../../testing/process-readings.ts';
import { KernelsGroup } from '../processes/kernels-group.ts';
import { Supervisors } from './supervisors.ts';

const guestDir = mkdtempSync(join(tmpdir(), 'cloche-supervisors-'));
after(() => rmSync(guestDir, { recursive: true }));

test('a supervisor that has closed its connection, as one does that is ending, gets no command', async () => {
  const file = join(guestDir, 'bin/supervise');
  mkdirSync(dirname(file));
  writeFileSync(file, '#!/bin/sh\nexec 3>&-; sleep 60\n', { mode: 0o755 });
  const supervisors = new Supervisors({ guestDir, reserveGroupFds: [] }, new KernelsGroup([]));
  const started = () => childrenOf(process.pid).filter((pid) => commandLine(pid).includes(file));
  supervisors.restock();
  await eventually(() => started().some((pid) => !existsSync(`/proc/${pid}/fd/3`)), {
    because: 'the supervisor closes its connection',
  });
  const [waiting] = started();
  // The end of the connection has no other trace in this process.
  await delay(100);
  const { process: taken } = supervisors.take();
  assert.notEqual(String(taken.pid), waiting, 'it would never answer, and never be heard to end');
  supervisors.close();
  for (const pid of started()) process.kill(Number(pid), 'SIGKILL');
});

test('a supervisor that cannot be started ahead disturbs nothing, and a command that needs one fails with the reason', async () => {
  // An argument cannot contain NUL: `spawn` throws.
  const supervisors = new Supervisors({ guestDir: `${guestDir}\0`, reserveGroupFds: [] }, new KernelsGroup([]));
  supervisors.restock();
  // Nothing happens: an error that is not handled would end the process within this time.
  await delay(50);
  assert.throws(() => supervisors.take(), { code: 'ERR_INVALID_ARG_VALUE' });
});
