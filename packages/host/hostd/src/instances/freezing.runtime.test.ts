import assert from 'node:assert/strict';
import { globSync, readFileSync, writeFileSync } from 'node:fs';
import { describe, test } from 'node:test';
import { eventually } from '@cloche/testkit/eventually';
import { HostdProcess } from '../../testing/hostd-process.ts';
import { recordsOnDisk } from '../../testing/inside.ts';
import { makeInstallation, makeSpec } from '../../testing/installation.ts';
import { instanceLeftovers } from '../../testing/leftovers.ts';

/** Starts a process of every part of an instance that a group may hold: children, one of them in its own session. */
const COUNTING = ['/bin/sh', '-c', 'sleep infinity & setsid sleep infinity & while :; do :; done'];

/** Returns the ids of all processes of the installation's instances, agents and inits included. */
function processesOf(installationId: string): number[] {
  const files = globSync(`/sys/fs/cgroup/{freezer/,}cloche-${installationId}/*/{,**/}cgroup.procs`);
  return files.flatMap((file) => readFileSync(file, 'utf8').split('\n').filter(Boolean).map(Number));
}

function isAlive(pid: number): boolean {
  try {
    return !/^State:\s+[ZX]/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'));
  } catch {
    return false;
  }
}

describe('a frozen instance', () => {
  test('a frozen instance that is stopped has no process left when the answer has come', async () => {
    using installation = makeInstallation();
    const { config } = installation;
    const { installationId } = config;
    await using hostd = await HostdProcess.start(installation, COUNTING);
    await hostd.launch('sbx_a', await makeSpec(config));
    await eventually(() => processesOf(installationId).length === 3, { because: 'its processes have started' });
    const pids = processesOf(installationId);
    const [{ key } = { key: '' }] = recordsOnDisk(config);
    // By hand, as an operator or a crashed hostd may have left it.
    const [v1] = globSync(`/sys/fs/cgroup/freezer/cloche-${installationId}/${key}/freezer.state`);
    if (v1 === undefined) writeFileSync(`/sys/fs/cgroup/cloche-${installationId}/${key}/cgroup.freeze`, '1');
    else writeFileSync(v1, 'FROZEN');
    assert.equal((await hostd.call('DELETE', '/instances/sbx_a/1')).status, 200);
    await eventually(() => !pids.some(isAlive), { within: 5_000, because: 'its processes have ended' });
    await hostd.stop('sbx_a');
    assert.deepEqual(instanceLeftovers(config), []);
  });
});
