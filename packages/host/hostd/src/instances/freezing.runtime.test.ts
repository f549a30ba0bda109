import assert from 'node:assert/strict';
import { globSync, readFileSync, writeFileSync } from 'node:fs';
import { describe, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { eventually } from '@cloche/testkit/eventually';
import { HostdProcess } from '../../testing/hostd-process.ts';
import { recordsOnDisk, runInside } from '../../testing/inside.ts';
import { makeInstallation, makeSpec } from '../../testing/installation.ts';
import { instanceLeftovers } from '../../testing/leftovers.ts';
import type { HostdConfig } from '../host/config.ts';

/** Starts children, one of them in a session of its own, and computes for ever. */
const COMPUTING = ['/bin/sh', '-c', 'sleep infinity & setsid sleep infinity & while :; do :; done'];
const PROCESSES = 3;
const RUNTIMES = ['crun', 'runc', 'runsc'];

/** Returns the ids of all processes of the installation's instances, agents and inits included. */
function processesOf({ installationId }: HostdConfig): number[] {
  const files = globSync(`/sys/fs/cgroup/{freezer/,}cloche-${installationId}/*/{,**/}cgroup.procs`);
  return files.flatMap((file) => readFileSync(file, 'utf8').split('\n').filter(Boolean).map(Number));
}

/** Returns the processor time of the processes in ticks of 10 ms, and of the children that they have waited for. */
function ticksOf(pids: readonly number[]): number {
  const fields = pids.map((pid) => readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]?.split(' ') ?? []);
  return fields.flatMap((each) => each.slice(11, 15).map(Number)).reduce((sum, ticks) => sum + ticks, 0);
}

function isAlive(pid: number): boolean {
  try {
    return !/^State:\s+[ZX]/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'));
  } catch {
    return false;
  }
}

/** Launches an instance, and waits until all of its processes run. */
async function launchComputing(hostd: HostdProcess, config: HostdConfig): Promise<number[]> {
  assert.equal((await hostd.launch('sbx_a', await makeSpec(config))).status, 200);
  await eventually(() => processesOf(config).length >= PROCESSES, { because: 'its processes have started' });
  const pids = processesOf(config);
  await eventually(() => ticksOf(pids) > 10, { because: 'it computes' });
  return processesOf(config);
}

const frozenOnes = async (hostd: HostdProcess) => (await hostd.list()).map(({ isFrozen }) => isFrozen);

describe('a frozen instance', () => {
  test('a frozen instance that is stopped has no process left when the answer has come', async () => {
    using installation = makeInstallation();
    const { config } = installation;
    await using hostd = await HostdProcess.start(installation, COMPUTING);
    const pids = await launchComputing(hostd, config);
    const { installationId } = config;
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

  for (const ociRuntime of RUNTIMES) {
    test(`a frozen instance of ${ociRuntime} executes nothing, is listed as frozen, and goes on when it is thawed`, async () => {
      using installation = makeInstallation({ CLOCHE_OCI_RUNTIME: ociRuntime });
      const { config } = installation;
      await using hostd = await HostdProcess.start(installation, COMPUTING);
      assert.equal((await hostd.call('GET', '/health')).body.freeze, true);
      const pids = await launchComputing(hostd, config);
      assert.deepEqual(await frozenOnes(hostd), [undefined]);
      for (let times = 0; times < 2; times += 1) {
        assert.deepEqual(await hostd.call('POST', '/instances/sbx_a/1/freeze'), { status: 200, body: {} });
        assert.deepEqual(await frozenOnes(hostd), [true]);
        assert.equal((await hostd.call('GET', '/instances/sbx_a/1')).body.isFrozen, true);
      }
      const ticks = ticksOf(pids);
      const { body: before } = await hostd.call('GET', '/uses');
      await delay(1000);
      assert.equal(ticksOf(pids), ticks, 'it executes nothing');
      assert.deepEqual((await hostd.call('GET', '/uses')).body, before, 'what it used is still known, and stays');
      const asked = { instances: [{ sandboxId: 'sbx_a', generation: 1 }] };
      const { body: measured } = await hostd.call('POST', '/measurements', asked);
      assert.ok(measured.measured[0].measurement.diskBytes > 0);
      for (let times = 0; times < 2; times += 1) {
        assert.deepEqual(await hostd.call('POST', '/instances/sbx_a/1/thaw'), { status: 200, body: {} });
        assert.deepEqual(await frozenOnes(hostd), [undefined]);
      }
      await eventually(() => ticksOf(pids) > ticks + 10, { because: 'it computes again' });
      await hostd.call('POST', '/instances/sbx_a/1/freeze');
      await hostd.stop('sbx_a');
      assert.ok(!pids.some(isAlive));
      assert.deepEqual(instanceLeftovers(config), []);
      for (const action of ['freeze', 'thaw']) {
        const { status, body } = await hostd.call('POST', `/instances/sbx_a/1/${action}`);
        assert.deepEqual([status, body.error.code], [404, 'instance_not_found']);
      }
    });
  }

  test('a frozen instance is found by a hostd that is started after the end of the one that froze it', async () => {
    using installation = makeInstallation();
    const { config } = installation;
    await using before = await HostdProcess.start(installation, COMPUTING);
    const pids = await launchComputing(before, config);
    await before.call('POST', '/instances/sbx_a/1/freeze');
    await before.kill();
    const ticks = ticksOf(pids);
    await using after = await HostdProcess.start(installation, COMPUTING);
    assert.deepEqual(await frozenOnes(after), [true]);
    // Whoever launches it again gets the one that lives.
    assert.equal((await after.launch('sbx_a', await makeSpec(config))).body.isFrozen, true);
    assert.equal(ticksOf(pids), ticks);
    await after.call('POST', '/instances/sbx_a/1/thaw');
    await eventually(() => ticksOf(pids) > ticks + 10, { because: 'it computes again' });
    await after.stop('sbx_a');
  });

  test('a frozen instance is given no kernel, and its files can become a version', async () => {
    using installation = makeInstallation();
    const { config } = installation;
    await using hostd = await HostdProcess.start(installation, COMPUTING);
    const pids = await launchComputing(hostd, config);
    await runInside(config, 'sbx_a', 'echo kept > /opt/file');
    await hostd.call('POST', '/instances/sbx_a/1/freeze');
    const kernel = await hostd.call('POST', '/instances/sbx_a/1/kernels', { language: 'python' });
    assert.deepEqual([kernel.status, kernel.body.error.code], [409, 'kernel_unavailable']);
    const request = { root: 'changes', purpose: 'version', manifest: { languages: [], env: {} } };
    const { status, body } = await hostd.call('POST', '/instances/sbx_a/1/capture', request);
    assert.equal(status, 200, JSON.stringify(body));
    assert.ok(!pids.some(isAlive));
    const spec = await makeSpec(config);
    spec.source.templateVersionId = body.id;
    assert.equal((await hostd.launch('sbx_b', spec)).status, 200);
    assert.equal((await runInside(config, 'sbx_b', 'cat /opt/file')).stdout, 'kept\n');
  });
});
