import assert from 'node:assert/strict';
import { rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { HostdProcess } from '../../testing/hostd-process.ts';
import { makeInstallation } from '../../testing/installation.ts';
import { keptFiles, ok, parkedOf, sandboxOf } from '../../testing/kept-sandbox.ts';
import { hostLeftovers } from '../../testing/leftovers.ts';

/** Steps of the end of an instance whose disk is kept, and whether the instance lives on when hostd is killed after one. */
const STEPS_OF_PARK = { named: true, kept: true, ended: false, settled: false, parked: false };
/** Steps of a launch from a kept disk: before and after its use is noted, and where mounts, processes or records differ. */
const STEPS_OF_LAUNCH = ['intent', 'disk', 'root', 'create', 'start', 'record'];

test('a hostd that is killed after any step that concerns a kept disk loses no file, and the next one goes on', async () => {
  using installation = makeInstallation();
  const { config, environment } = installation;
  const sandbox = sandboxOf(installation);
  const file = join(config.runDir, 'killed-after');
  const killable = { ...installation, environment: { ...environment, CLOCHE_TEST_KILLED_AFTER: file } };
  await using hostds = new AsyncDisposableStack();
  const start = async () => hostds.use(await HostdProcess.start(killable));
  /** Calls a hostd that is killed after a step of the call, and starts the next one. */
  const killedAfter = async (step: string, killed: HostdProcess, call: () => Promise<unknown>) => {
    writeFileSync(file, step);
    await assert.rejects(call(), step);
    await killed.kill();
    rmSync(file);
    return start();
  };

  let hostd = await start();
  let generation = 1;
  let written = 'line\n';
  ok(await sandbox.launch(hostd, 1));
  await sandbox.inside('echo line > /opt/file');
  for (const [step, livesOn] of Object.entries(STEPS_OF_PARK)) {
    hostd = await killedAfter(step, hostd, () => sandbox.park(hostd, generation));
    assert.equal((await hostd.list()).length, livesOn ? 1 : 0, step);
    if (livesOn) {
      await sandbox.inside(`echo ${step} >> /opt/file`);
      written += `${step}\n`;
    }
    ok(await sandbox.park(hostd, generation));
    ok(await sandbox.launch(hostd, generation + 1, generation));
    assert.equal(await sandbox.inside('cat /opt/file'), written, step);
    generation += 1;
  }
  ok(await sandbox.park(hostd, generation));
  for (const step of STEPS_OF_LAUNCH) {
    hostd = await killedAfter(step, hostd, () => sandbox.launch(hostd, generation + 1, generation));
    // The instance that lives, or a new one.
    ok(await sandbox.launch(hostd, generation + 1, generation));
    assert.equal(await sandbox.inside('cat /opt/file'), written, step);
    generation += 1;
    ok(await sandbox.park(hostd, generation));
    assert.deepEqual(
      (await parkedOf(hostd)).map((disk: { generation: number }) => disk.generation),
      [generation],
      step,
    );
  }
  await sandbox.remove(hostd, generation);
  await hostd.close();
  assert.deepEqual([...keptFiles(config), ...hostLeftovers(config)], []);
});
