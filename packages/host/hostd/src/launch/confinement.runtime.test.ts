import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { eventually } from '@cloche/testkit/eventually';
import { HostdProcess } from '../../testing/hostd-process.ts';
import { runInside } from '../../testing/inside.ts';
import { MEBIBYTE, makeInstallation, makeSpec, type TestInstallation } from '../../testing/installation.ts';
import { hostLeftovers } from '../../testing/leftovers.ts';
import { RESERVE } from '../cgroups/divided-group.ts';

/** Attempts of a sandbox's root, by name. Each says `done` if it succeeds. */
const ATTEMPTS = {
  'make a user namespace': 'unshare --user true',
  'make a mount namespace': 'unshare --mount true',
  'make a network namespace': 'unshare --net true',
  'mount a file system': 'mount -t tmpfs x /mnt',
  'unmount what is over its files': 'umount /proc/kcore || umount /opt/cloche',
  'mount a file system of the kernel anew': 'mount -t proc proc /mnt',
  'make a device': 'mknod /root/mem c 1 1 && head -c 1 /root/mem',
  'read the memory of the kernel': 'test -n "$(head -c 1 /proc/kcore)"',
  'read the log of the kernel': 'dmesg',
  'change a setting of the kernel': 'echo 1 > /proc/sys/kernel/panic',
  'press a magic key': 'echo h > /proc/sysrq-trigger',
  'set the clock': 'date -s 2001-01-01',
  'change its name': 'hostname other',
  'change its network': 'test -w /sys/class/net/lo/mtu',
  'spend more descriptors than it has': 'ulimit -Hn 10000000',
  'give back its limit of processes': 'echo max > /sys/fs/cgroup/pids/pids.max || echo max > /sys/fs/cgroup/pids.max',
  'leave the group of its kernels':
    'echo 0 >&4; echo 0 > /sys/fs/cgroup/cpu/agent/cgroup.procs || echo 0 > /sys/fs/cgroup/agent/cgroup.procs',
  'open what moves processes there anew': 'echo 0 > /proc/self/fd/4',
  'look around from what moves processes there': 'ls /proc/self/fd/4/..',
  'move a process that is not in the sandbox': `echo ${process.pid} >&4`,
  'count down its score with the memory killer': 'echo -1000 > /proc/self/oom_score_adj',
} as const;

/** Permitted actions, the control: they show that a refusal is not due to a broken sandbox. */
const CONTROLS = {
  'change the owner of a file': 'touch /root/x && chown 1000:1000 /root/x',
  'become another user': 'setpriv --reuid 1000 --regid 1000 --clear-groups true',
  'write where root writes': 'echo x > /etc/x',
  'move its processes to the group of its kernels': 'echo 0 >&4',
  'start processes': 'for i in 1 2 3; do true & done; wait',
} as const;

describe('root of a sandbox', () => {
  let installation: TestInstallation;
  let hostd: HostdProcess;
  const outcomes = new Map<string, string>();

  before(async () => {
    installation = makeInstallation();
    const attempts = Object.values({ ...CONTROLS, ...ATTEMPTS });
    const lines = attempts.map((attempt) => `if ( ${attempt} ) >/dev/null 2>&1; then echo done; else echo refused; fi`);
    const script = `( ${lines.join('\n')} ) > /root/outcomes; mv /root/outcomes /outcomes; sleep infinity`;
    hostd = await HostdProcess.start(installation, ['/bin/sh', '-c', script]);
    await hostd.launch('sbx_a', await makeSpec(installation.config));
    await eventually(async () => (await runInside(installation.config, 'sbx_a', 'test -e /outcomes')).exitCode === 0, {
      because: 'it has tried all',
    });
    const { stdout } = await runInside(installation.config, 'sbx_a', 'cat /outcomes');
    const said = stdout.trim().split('\n');
    for (const [index, name] of Object.keys({ ...CONTROLS, ...ATTEMPTS }).entries())
      outcomes.set(name, said[index] ?? '');
  });

  after(async () => {
    await hostd.stop('sbx_a');
    await hostd.close();
    assert.deepEqual(hostLeftovers(installation.config), []);
    installation[Symbol.dispose]();
  });

  for (const name of Object.keys(CONTROLS)) {
    test(`root of a sandbox can ${name}`, () => assert.equal(outcomes.get(name), 'done'));
  }
  for (const name of Object.keys(ATTEMPTS)) {
    test(`root of a sandbox cannot ${name}`, () => assert.equal(outcomes.get(name), 'refused'));
  }
});

/** Moves a process of a sandbox to the kernels' group, as the agent does with each kernel before its first run. */
const AMONG_KERNELS = 'for fd in $(echo "$CLOCHE_KERNELS_GROUP_FDS" | tr , " "); do eval "echo 0 >&$fd"; done';
const IN_RESERVE = AMONG_KERNELS.replace('KERNELS', 'RESERVE');

test('a sandbox that exceeds its memory loses a process of its own, and its neighbour is not affected', async () => {
  using installation = makeInstallation();
  const { config } = installation;
  const hog = `( ${AMONG_KERNELS}; exec tail /dev/zero ); echo $? > /killed; sleep infinity`;
  await using hostd = await HostdProcess.start(installation, ['/bin/sh', '-c', hog]);
  const spec = await makeSpec(config, { memoryBytes: 48 * MEBIBYTE });
  await hostd.launch('sbx_a', spec);
  await hostd.launch('sbx_b', spec);
  for (const id of ['sbx_a', 'sbx_b']) {
    await eventually(async () => (await runInside(config, id, 'test -s /killed')).exitCode === 0, {
      because: 'the hog is killed',
    });
    assert.equal((await runInside(config, id, 'cat /killed')).stdout, '137\n');
  }
  assert.equal((await hostd.list()).length, 2);
  for (const id of ['sbx_a', 'sbx_b']) await hostd.stop(id);
  await hostd.close();
  assert.deepEqual(hostLeftovers(config), []);
});

test('a sandbox that forks without end reaches its limit, and can be stopped as usual', async () => {
  using installation = makeInstallation();
  const { config } = installation;
  const bomb = 'i=0; while [ $i -lt 500 ]; do sleep infinity & i=$((i+1)); done 2>/dev/null; sleep infinity';
  await using hostd = await HostdProcess.start(installation, [
    '/bin/sh',
    '-c',
    `( ${AMONG_KERNELS}; ${bomb} ) & exec sleep infinity`,
  ]);
  await hostd.launch('sbx_a', await makeSpec(config, { pids: 32 }));
  const counted = 'cat /sys/fs/cgroup/pids/kernels/pids.current /sys/fs/cgroup/kernels/pids.current 2>/dev/null';
  const count = async () => Number((await runInside(config, 'sbx_a', counted)).stdout);
  // The shell itself gives up at the limit, so one or two processes may be missing afterwards.
  await eventually(async () => (await count()) >= 30, { because: 'it is at its bound' });
  assert.ok((await count()) <= 32);
  assert.equal((await hostd.stop('sbx_a')).status, 200);
  await hostd.close();
  assert.deepEqual(hostLeftovers(config), []);
});

test('a sandbox whose processes are used up has a reserve of four, which is as limited', async () => {
  using installation = makeInstallation();
  const { config } = installation;
  const bomb = 'i=0; while [ $i -lt 500 ]; do sleep infinity & i=$((i+1)); done 2>/dev/null; sleep infinity';
  const count = (group: string) => `cat /sys/fs/cgroup/pids/${group}/pids.current /sys/fs/cgroup/${group}/pids.current`;
  const read = async (group: string) => {
    const { stdout } = await runInside(config, 'sbx_a', `( ${count(group)} ) 2>/dev/null`);
    return Number(stdout);
  };
  await using hostd = await HostdProcess.start(installation, [
    '/bin/sh',
    '-c',
    `( ${AMONG_KERNELS}; ${bomb} ) & while [ ! -e /tmp/go ]; do sleep 0.1; done; ( ${IN_RESERVE}; ${bomb} ) & exec sleep infinity`,
  ]);
  await hostd.launch('sbx_a', await makeSpec(config, { pids: 32 }));
  await eventually(async () => (await read('kernels')) >= 30, { because: 'the kernels are at their limit' });
  assert.equal(await read('reserve'), 0);
  await runInside(config, 'sbx_a', 'touch /tmp/go');
  await eventually(async () => (await read('reserve')) >= RESERVE.pids - 1, { because: 'the reserve is at its limit' });
  assert.ok((await read('reserve')) <= RESERVE.pids);
  assert.equal((await hostd.stop('sbx_a')).status, 200);
  await hostd.close();
  assert.deepEqual(hostLeftovers(config), []);
});
