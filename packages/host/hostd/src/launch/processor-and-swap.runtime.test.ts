import assert from 'node:assert/strict';
import { globSync, readFileSync } from 'node:fs';
import { test } from 'node:test';
import { eventually } from '@cloche/testkit/eventually';
import { HostdProcess } from '../../testing/hostd-process.ts';
import { recordsOnDisk, runInside } from '../../testing/inside.ts';
import { MEBIBYTE, makeInstallation, makeSpec } from '../../testing/installation.ts';
import { cpuQuotaUs } from '../cgroups/divided-group.ts';

/** Moves a process of a sandbox to the kernels' group, as the agent does with each kernel before its first run. */
const AMONG_KERNELS = 'for fd in $(echo "$CLOCHE_KERNELS_GROUP_FDS" | tr , " "); do eval "echo 0 >&$fd"; done';
const CPU = 0.25;
const PERIODS = 20;
/** Each processor may finish the slice of the quota that it has taken. */
const TOLERANCE = 1.3;

/** Reads the counters of the kernels' group: periods in which it ran, those that ended early, processor time. */
function processorOf(key: string): { periods: number; throttled: number; usedUs: number } {
  const [file = ''] = globSync(`/sys/fs/cgroup/{cpu,}/cloche-*/${key}/kernels/cpu.stat`);
  const text = readFileSync(file, 'utf8');
  const counter = (name: string) => Number(new RegExp(`^${name} (\\d+)$`, 'm').exec(text)?.[1] ?? 0);
  const [v1] = globSync(`/sys/fs/cgroup/cpuacct/cloche-*/${key}/kernels/cpuacct.usage`);
  const usedUs = v1 === undefined ? counter('usage_usec') : Number(readFileSync(v1, 'utf8')) / 1000;
  return { periods: counter('nr_periods'), throttled: counter('nr_throttled'), usedUs };
}

test('processes of a sandbox together get no more processor time than its limit', async () => {
  using installation = makeInstallation();
  const { config } = installation;
  const loops = `${AMONG_KERNELS}; for each in 1 2 3; do while :; do :; done & done; sleep infinity`;
  await using hostd = await HostdProcess.start(installation, ['/bin/sh', '-c', loops]);
  await hostd.launch('sbx_a', await makeSpec(config, { cpu: CPU }));
  const [{ key } = { key: '' }] = recordsOnDisk(config);
  await eventually(() => processorOf(key).throttled >= PERIODS, { because: 'it has wanted more than its limit' });
  const { periods, usedUs } = processorOf(key);
  assert.ok(usedUs <= periods * cpuQuotaUs(CPU) * TOLERANCE, `${usedUs} µs in ${periods} periods`);
  await hostd.stop('sbx_a');
});

/** Whether this machine has swap. `npm run test:vm` adds some in its machine. */
const hasSwap = readFileSync('/proc/swaps', 'utf8').trim().split('\n').length > 1;

test('a sandbox keeps nothing in swap: what exceeds its memory is killed', {
  skip: !hasSwap && 'this machine has no swap',
}, async () => {
  using installation = makeInstallation();
  const { config } = installation;
  // Without a newline, `tail` keeps everything in memory.
  const hold = `( ${AMONG_KERNELS}; head -c 96M /dev/zero | tail > /dev/null ); echo $? > /ended; sleep infinity`;
  await using hostd = await HostdProcess.start(installation, ['/bin/sh', '-c', hold]);
  for (const [id, memoryBytes, status] of [
    ['sbx_small', 48 * MEBIBYTE, '137\n'],
    ['sbx_large', 256 * MEBIBYTE, '0\n'],
  ] as const) {
    await hostd.launch(id, await makeSpec(config, { memoryBytes }));
    await eventually(async () => (await runInside(config, id, 'test -s /ended')).exitCode === 0, {
      because: 'its process has ended',
    });
    assert.equal((await runInside(config, id, 'cat /ended')).stdout, status);
    await hostd.stop(id);
  }
});
