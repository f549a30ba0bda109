import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { test } from 'node:test';
import { eventually } from '@cloche/testkit/eventually';
import { describePython } from '../../testing/describe-python.ts';

/** Each case sleeps for a time of its own, so that its processes are told from those of others. */
const FIRST_SECONDS = 8_100_000 + (process.pid % 1000) * 100;

/** What an interrupt ends, `S` being a time that no other case sleeps for. */
const ENDED: readonly string[] = [
  '%%bash\nsleep S',
  '%%sh\nsleep S; echo late',
  'import subprocess; subprocess.run("sleep S; echo late", shell=True)',
  'import os; os.popen("sleep S; echo late").read()',
  'import os; os.system("sleep S; echo late")',
  'import subprocess; subprocess.check_output(["sh", "-c", "sleep S | cat"])',
  'import subprocess; [subprocess.Popen(["sleep", "S"]) for _ in range(3)][0].wait()',
  'found = !sleep S; echo late',
  '!sleep S; echo late',
  '!(sleep S); echo late',
  'import multiprocessing, os\nwith multiprocessing.Pool(2) as pool: pool.map(os.system, ["sleep S"] * 2)',
  'import asyncio\nawait (await asyncio.create_subprocess_shell("sleep S; echo late")).wait()',
];
/** What lives on: the user has detached it. */
const KEPT: readonly string[] = [
  'import subprocess, time\nsubprocess.Popen(["sleep", "S"], start_new_session=True)\ntime.sleep(60)',
  'import os\nos.system("nohup sleep S > /dev/null 2>&1 & sleep 60")',
  'import os\nos.system("setsid sleep S & sleep 60")',
  '!nohup sleep S > /dev/null 2>&1 & sleep 60',
  '%%bash\nsleep S > /dev/null 2>&1 &\nsleep 60',
];

describePython('an interrupt of a Python cell', (python) => {
  const interrupted = async (code: string, seconds: number) => {
    const run = python.agent.run(python.context, code.replaceAll(/\bS\b/g, `${seconds}`));
    await eventually(() => sleeping(seconds).length > 0, { because: `it runs: ${code}` });
    assert.equal((await python.agent.call('POST', `/contexts/${python.context}/interrupt`)).status, 204);
    assert.equal((await run).done.error?.name, 'CanceledError');
  };

  test('an interrupt of a Python cell reaches what the cell has started, and keeps the variables', async () => {
    await python.agent.run(python.context, 'kept = 7');
    for (const [index, code] of ENDED.entries()) {
      const seconds = FIRST_SECONDS + index;
      await interrupted(code, seconds);
      await eventually(() => sleeping(seconds).length === 0, { because: `it has ended: ${code}` });
      assert.equal((await python.agent.run(python.context, 'kept')).outputs[0]?.value, '7', code);
    }
  });

  test('an interrupt of a Python cell leaves what the user has detached', async () => {
    for (const [index, code] of KEPT.entries()) {
      const seconds = FIRST_SECONDS + 50 + index;
      await interrupted(code, seconds);
      // The next cell begins when the interrupt has done its work.
      await python.agent.run(python.context, '1');
      const [pid] = sleeping(seconds);
      assert.ok(pid, code);
      process.kill(pid);
    }
  });

  test('an interrupt of a Python cell ends a command that ignores it, and what it waits for', async () => {
    await interrupted("!trap '' INT; sleep S; echo late", FIRST_SECONDS + 90);
    await eventually(() => sleeping(FIRST_SECONDS + 90).length === 0, { because: 'the command has ended' });
  });
});

/** Returns the ids of processes that sleep for this time. */
function sleeping(seconds: number): number[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .filter((pid) => {
      try {
        return readFileSync(`/proc/${pid}/cmdline`, 'utf8').startsWith(`sleep\0${seconds}\0`);
      } catch {
        return false;
      }
    })
    .map(Number);
}
