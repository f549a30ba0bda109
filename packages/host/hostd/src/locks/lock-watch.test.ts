import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { needsRoot } from '@cloche/testkit/needs-root';
import { pino } from 'pino';
import { countLocks, countLocksOfProcess } from './count-locks.ts';
import { LockWatch } from './lock-watch.ts';

const log = pino({ level: 'silent' });

/** Makes a host where the process with id n holds n thousand locks. */
function fakeHost(processes: Record<string, number[]>, count: number) {
  const killed: number[] = [];
  let looks = 0;
  const options = {
    groups: {
      processesOf: (key: string) => new Set(processes[key]),
      killProcesses: (_key: string, pids: ReadonlySet<number>) => void killed.push(...pids),
    },
    keys: () => Object.keys(processes),
    log,
    intervalMs: 1,
    count: () => count,
    countHeld: async (pid: number) => {
      looks += 1;
      return pid * 1000;
    },
  };
  return { options, killed, looks: () => looks };
}

async function watchFor(ms: number, options: ConstructorParameters<typeof LockWatch>[0]): Promise<void> {
  const watch = new LockWatch(options);
  await delay(ms);
  await watch.close();
}

test('the processes that hold the locks of a sandbox are killed once it has too many, and no others', async () => {
  const host = fakeHost({ greedy: [1, 40, 70], modest: [90] }, 300_000);
  await watchFor(0, host.options);
  assert.deepEqual(host.killed, [40, 70]);
});

test('no process is examined while the host has few locks', async () => {
  const host = fakeHost({ a: [200] }, 249_999);
  await watchFor(20, host.options);
  assert.equal(host.looks(), 0);
});

test('processes are examined only once if other programs of the host hold the locks', async () => {
  const host = fakeHost({ a: [1], b: [2] }, 900_000);
  await watchFor(20, host.options);
  assert.equal(host.looks(), 2);
  assert.deepEqual(host.killed, []);
});

test('this kernel reports the number of locks, and the locks of a process', { skip: needsRoot }, async () => {
  assert.equal(typeof countLocks(), 'number');
  assert.equal(await countLocksOfProcess(process.pid), 0);
  assert.equal(await countLocksOfProcess(2 ** 30), 0);
});
