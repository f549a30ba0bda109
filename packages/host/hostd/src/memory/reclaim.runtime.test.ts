import assert from 'node:assert/strict';
import { globSync, readFileSync } from 'node:fs';
import { describe, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { lacksZram, zramForTest } from '@cloche/host-checks/zram-for-test';
import { swapDevices } from '@cloche/layout';
import { eventually } from '@cloche/testkit/eventually';
import { HostdProcess } from '../../testing/hostd-process.ts';
import { initPid, recordsOnDisk, runInside } from '../../testing/inside.ts';
import { MEBIBYTE, makeInstallation, makeSpec } from '../../testing/installation.ts';
import { instanceLeftovers } from '../../testing/leftovers.ts';
import { findHierarchies } from '../cgroups/cgroup-hierarchies.ts';
import { GroupUsage, type HeldMemory, WHOLE_GROUP } from '../cgroups/group-usage.ts';
import { SwapGroups } from '../cgroups/swap-groups.ts';
import type { HostdConfig } from '../host/config.ts';

const HELD_MIB = 16;
const LARGE_MIB = 256;
/** Holds memory that compresses well, and writes again and again a sum of it and the number of its sums. */
const HOLDING = [
  '/usr/bin/env',
  'node',
  '-e',
  `const held = Buffer.alloc(${HELD_MIB} * 2 ** 20, 'text of a program, ');
   let count = 0;
   setInterval(() => {
     let sum = 0;
     for (let at = 0; at < held.length; at += 4096) sum += held[at];
     require('fs').writeFileSync('/tmp/new', sum + ' ' + ++count);
     require('fs').renameSync('/tmp/new', '/tmp/sum');
   }, 100)`,
];
const AT_ONCE = { CLOCHE_FROZEN_RECLAIM_MS: '0' };
/** With a sandbox whose first process has all of its memory. */
const SIZE = { memoryBytes: 512 * MEBIBYTE };
const isVersion1 = new SwapGroups(findHierarchies(), '').canReclaim;
const skip = lacksZram || (!isVersion1 && 'control groups of version 2 alone reclaim nothing');

function heldBy(config: HostdConfig, sandboxId = 'sbx_a') {
  const { key } = recordsOnDisk(config).find(({ record }) => record.sandboxId === sandboxId) ?? { key: '' };
  return new GroupUsage(`cloche-${config.installationId}`, findHierarchies(), WHOLE_GROUP).held(key) ?? assert.fail();
}

/** Returns the sum and how often it was written. */
async function sumIn(config: HostdConfig, sandboxId = 'sbx_a'): Promise<[sum: number, count: number]> {
  const { stdout } = await runInside(config, sandboxId, 'cat /tmp/sum');
  const [sum = 0, count = 0] = stdout.split(' ').map(Number);
  return [sum, count];
}

async function launchHolding(hostd: HostdProcess, config: HostdConfig, sandboxId = 'sbx_a') {
  assert.equal((await hostd.launch(sandboxId, await makeSpec(config, SIZE))).status, 200);
  await eventually(async () => (await sumIn(config, sandboxId))[1] > 0, { because: 'it holds its memory' });
  return sumIn(config, sandboxId);
}

const swappinessOf = ({ installationId }: HostdConfig) =>
  new Set(
    globSync(`/sys/fs/cgroup/memory/cloche-${installationId}/*/{,*/}memory.swappiness`).map((file) =>
      readFileSync(file, 'utf8').trim(),
    ),
  );

/** Returns the bytes of processes that are in swap: what runs beside a frozen instance. */
function swappedOf(pids: readonly number[]): number[] {
  return pids.map((pid) => Number(/^VmSwap:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]));
}

/** Returns the processes that hostd has started to move memory. */
function helpersOf({ pid }: HostdProcess): string[] {
  const children = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim().split(' ').filter(Boolean);
  return children.map(commandOf).filter((command) => command.includes('memory.force_empty'));
}

function commandOf(pid: string): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8');
  } catch {
    return '';
  }
}

describe('the memory of a frozen instance', { skip }, () => {
  for (const CLOCHE_OCI_RUNTIME of ['crun', 'runc', 'runsc']) {
    test(`the memory of a frozen instance of ${CLOCHE_OCI_RUNTIME} is moved to swap, and is there after the thaw`, async () => {
      using installation = makeInstallation({ ...AT_ONCE, CLOCHE_OCI_RUNTIME });
      const { config } = installation;
      await using hostd = await HostdProcess.start(installation, HOLDING);
      const [sum] = await launchHolding(hostd, config);
      await launchHolding(hostd, config, 'sbx_other');
      assert.deepEqual(swappinessOf(config), new Set(['0']));
      const before = heldBy(config);
      assert.ok(before.residentBytes > HELD_MIB * MEBIBYTE, JSON.stringify(before));
      await using _swap = await zramForTest();
      assert.equal((await hostd.call('POST', '/instances/sbx_a/1/freeze')).status, 200);
      // What the kernel has for its processes stays in memory: with gVisor, 10 MiB.
      // What the kernel has for its processes stays in memory: with gVisor, 10 MiB.
      const isOut = ({ residentBytes, swappedBytes }: HeldMemory) =>
        residentBytes < before.residentBytes / 3 && swappedBytes > HELD_MIB * MEBIBYTE;
      await eventually(() => isOut(heldBy(config)), { because: 'it is in swap' });
      // What runs keeps its memory: the other sandbox, hostd, and the interpreter that kernels are forked from.
      const children = readFileSync(`/proc/${hostd.pid}/task/${hostd.pid}/children`, 'utf8').trim().split(' ');
      const running = [initPid(config, 'sbx_other'), hostd.pid, ...children.filter(Boolean).map(Number)];
      assert.deepEqual(new Set(swappedOf(running)), new Set([0]));
      assert.equal((await hostd.call('POST', '/instances/sbx_a/1/thaw')).status, 200);
      assert.deepEqual(swappinessOf(config), new Set(['0']));
      const [, count] = await sumIn(config);
      await eventually(async () => (await sumIn(config))[1] > count, { because: 'it goes on' });
      assert.equal((await sumIn(config))[0], sum);
      await hostd.call('POST', '/instances/sbx_a/1/freeze');
      for (const id of ['sbx_a', 'sbx_other']) await hostd.stop(id);
      assert.deepEqual(instanceLeftovers(config), []);
    });
  }

  test('the memory of a frozen instance is not moved any further once the instance is thawed', async () => {
    using installation = makeInstallation({ ...AT_ONCE });
    const { config } = installation;
    // Different in each page, so that moving all of it takes seconds.
    const large = `const held = require('crypto').randomBytes(${LARGE_MIB} * 2 ** 20); setInterval(() => held, 1000)`;
    await using hostd = await HostdProcess.start(installation, ['/usr/bin/env', 'node', '-e', large]);
    await hostd.launch('sbx_a', await makeSpec(config, { memoryBytes: 2 * LARGE_MIB * MEBIBYTE }));
    const all = LARGE_MIB * MEBIBYTE;
    await eventually(() => heldBy(config).residentBytes > all, { because: 'it holds its memory' });
    await using _swap = await zramForTest();
    await hostd.call('POST', '/instances/sbx_a/1/freeze');
    await eventually(() => heldBy(config).swappedBytes > 0, { because: 'its memory is moved' });
    assert.equal((await hostd.call('POST', '/instances/sbx_a/1/thaw')).status, 200);
    await eventually(() => helpersOf(hostd).length === 0, { because: 'the process that moves it has ended' });
    const { swappedBytes } = heldBy(config);
    assert.ok(swappedBytes < all, `${swappedBytes} bytes were moved before the thaw`);
    await delay(500);
    assert.ok(heldBy(config).swappedBytes <= swappedBytes, 'it only comes back');
    await hostd.stop('sbx_a');
  });

  test('the memory of a frozen instance that is deleted while it is moved leaves nothing', async () => {
    using installation = makeInstallation({ ...AT_ONCE });
    const { config } = installation;
    await using hostd = await HostdProcess.start(installation, HOLDING);
    await launchHolding(hostd, config);
    await using _swap = await zramForTest();
    await hostd.call('POST', '/instances/sbx_a/1/freeze');
    await hostd.stop('sbx_a');
    assert.deepEqual(instanceLeftovers(config), []);
    await eventually(() => helpersOf(hostd).length === 0, { because: 'the process that moves it has ended' });
  });

  test('the memory of a frozen instance stays where it is without swap', {
    skip: swapDevices().length > 0 && 'this machine has swap',
  }, async () => {
    using installation = makeInstallation(AT_ONCE);
    await using hostd = await HostdProcess.start(installation, HOLDING);
    await launchHolding(hostd, installation.config);
    await hostd.call('POST', '/instances/sbx_a/1/freeze');
    await delay(500);
    const { residentBytes, swappedBytes } = heldBy(installation.config);
    assert.ok(residentBytes > HELD_MIB * MEBIBYTE);
    assert.equal(swappedBytes, 0);
  });

  test('the memory of a frozen instance is moved to swap by a hostd that finds it frozen', async () => {
    using installation = makeInstallation({ CLOCHE_FROZEN_RECLAIM_MS: '3600000' });
    const { config } = installation;
    await using before = await HostdProcess.start(installation, HOLDING);
    await launchHolding(before, config);
    await before.call('POST', '/instances/sbx_a/1/freeze');
    await before.kill();
    await using _swap = await zramForTest();
    const environment = { ...installation.environment, ...AT_ONCE };
    await using after = await HostdProcess.start({ ...installation, environment }, HOLDING);
    await eventually(() => heldBy(config).swappedBytes > HELD_MIB * MEBIBYTE, { because: 'it is in swap' });
    await after.stop('sbx_a');
  });
});
