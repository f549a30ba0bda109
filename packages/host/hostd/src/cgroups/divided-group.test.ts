import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { findHierarchies } from './cgroup-hierarchies.ts';
import { divide, dividedHierarchies, RESERVE } from './divided-group.ts';

const RESOURCES = { cpu: 1.5, memoryBytes: 512 << 20, diskBytes: 1 << 30, pids: 100 };
const VERSION_2 = 'cgroup2 /sys/fs/cgroup cgroup2 rw,nosuid 0 0';
const VERSION_1 = `tmpfs /sys/fs/cgroup tmpfs rw,mode=755 0 0
cgroup /sys/fs/cgroup/cpu,cpuacct cgroup rw,relatime,cpu,cpuacct 0 0
cgroup /sys/fs/cgroup/memory cgroup rw,memory 0 0
cgroup /sys/fs/cgroup/pids cgroup rw,pids 0 0
cgroup /sys/fs/cgroup/freezer cgroup rw,freezer 0 0
cgroup /sys/fs/cgroup/systemd cgroup rw,name=systemd 0 0`;
const HYBRID = `${VERSION_1}\ncgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0`;

/** Makes a folder of plain files instead of a cgroup, so that a test can read what was written. */
function makeGroup(...processes: number[]) {
  const folder = mkdtempSync(join(tmpdir(), 'cloche-group-'));
  for (const part of ['agent', 'kernels', 'reserve']) mkdirSync(join(folder, part));
  writeFileSync(join(folder, 'cgroup.procs'), processes.map((pid) => `${pid}\n`).join(''));
  return {
    folder,
    read: (name: string) => readFileSync(join(folder, name), 'utf8'),
    [Symbol.dispose]: () => rmSync(folder, { recursive: true }),
  };
}

describe('the group of an instance is divided', () => {
  test('the group of an instance is divided in the one hierarchy of a host with control groups of version 2', () => {
    const mountPoints = dividedHierarchies(findHierarchies(VERSION_2)).map(({ mountPoint }) => mountPoint);
    assert.deepEqual(mountPoints, ['/sys/fs/cgroup']);
  });

  for (const [name, mounts] of Object.entries({ 'of version 1': VERSION_1, 'of both versions': HYBRID })) {
    test(`in each hierarchy of a host with control groups ${name} that counts processor, memory or processes`, () => {
      const mountPoints = dividedHierarchies(findHierarchies(mounts)).map(({ mountPoint }) => mountPoint);
      assert.deepEqual(
        mountPoints,
        ['cpu,cpuacct', 'memory', 'pids'].map((folder) => `/sys/fs/cgroup/${folder}`),
      );
    });
  }

  test('so that the kernels have the requested limits and the agent has priority, in version 2', () => {
    using group = makeGroup(4711);
    divide({ mountPoint: '/', version: 2, controllers: [] }, group.folder, RESOURCES);
    assert.equal(group.read('agent/cgroup.procs'), '4711');
    assert.equal(group.read('cgroup.subtree_control'), '+cpu +memory +pids');
    assert.equal(group.read('kernels/cpu.max'), '150000 100000');
    assert.equal(group.read('kernels/memory.max'), String(512 << 20));
    assert.equal(group.read('kernels/memory.swap.max'), '0');
    assert.equal(group.read('kernels/pids.max'), '100');
    assert.ok(Number(group.read('agent/cpu.weight')) >= 8 * 100);
    assert.equal(group.read('reserve/pids.max'), String(RESERVE.pids));
    assert.equal(group.read('reserve/memory.max'), String(RESERVE.memoryBytes));
    assert.equal(group.read('reserve/memory.swap.max'), '0');
  });

  test('the group of an instance is divided and in version 1, where each hierarchy has its own limits', () => {
    using group = makeGroup(4711);
    for (const controller of ['cpu', 'memory', 'pids']) {
      divide({ mountPoint: '/', version: 1, controllers: ['rw', controller] }, group.folder, RESOURCES);
    }
    assert.equal(group.read('agent/cgroup.procs'), '4711');
    assert.equal(group.read('kernels/cpu.cfs_quota_us'), '150000');
    assert.equal(group.read('kernels/memory.limit_in_bytes'), String(512 << 20));
    assert.equal(group.read('kernels/memory.kmem.tcp.limit_in_bytes'), String(128 << 20));
    assert.equal(group.read('kernels/pids.max'), '100');
    assert.ok(Number(group.read('agent/cpu.shares')) >= 8 * 1024);
    assert.equal(group.read('reserve/pids.max'), String(RESERVE.pids));
    assert.equal(group.read('reserve/memory.limit_in_bytes'), String(RESERVE.memoryBytes));
  });

  test('or fails: a limit that cannot be set is an error', () => {
    using group = makeGroup();
    mkdirSync(join(group.folder, 'kernels/pids.max'));
    assert.throws(() => divide({ mountPoint: '/', version: 2, controllers: [] }, group.folder, RESOURCES), /EISDIR/);
  });
});
