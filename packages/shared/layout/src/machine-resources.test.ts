import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { availableParallelism, tmpdir, totalmem } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, describe, it } from 'node:test';
import { type MachineFiles, machineMemory, machineProcessors } from './machine-resources.ts';

const MIB = 2 ** 20;
const MEMINFO = `MemTotal:       ${16 * 1024 * 1024} kB\nMemFree: 1 kB\nMemAvailable:   ${8 * 1024 * 1024} kB\n`;

describe('the resources of a machine', () => {
  let folder: string;
  let files: MachineFiles;
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'cloche-machine-'));
    files = { meminfo: join(folder, 'meminfo'), cgroups: join(folder, 'cgroup') };
    writeFileSync(files.meminfo, MEMINFO);
  });
  afterEach(() => rmSync(folder, { recursive: true }));

  function write(contents: Record<string, string>): void {
    for (const [name, content] of Object.entries(contents)) {
      const file = join(files.cgroups, name);
      mkdirSync(dirname(file), { recursive: true });
      writeFileSync(file, `${content}\n`);
    }
  }

  it('the resources of a machine are those of this machine', () => {
    const { totalBytes, availableBytes } = machineMemory();
    assert.ok(totalBytes <= totalmem() && availableBytes <= totalBytes);
    assert.ok(machineProcessors() >= 1 && machineProcessors() <= availableParallelism());
  });

  it('the resources of a machine are the whole machine without control groups, and without limits', () => {
    const whole = { totalBytes: 16_384 * MIB, availableBytes: 8192 * MIB };
    assert.deepEqual(machineMemory(files), whole);
    assert.equal(machineProcessors(files), availableParallelism());
    write({ 'memory.max': 'max', 'memory.current': '1', 'memory.stat': '', 'cpu.max': 'max 100000' });
    assert.deepEqual(machineMemory(files), whole);
    assert.equal(machineProcessors(files), availableParallelism());
  });

  it('the resources of a machine are the whole machine at the top of hierarchies of version 1', () => {
    write({
      'memory/memory.limit_in_bytes': '9223372036854771712',
      'memory/memory.usage_in_bytes': `${9000 * MIB}`,
      'memory/memory.stat': 'total_active_file 0',
      'cpu/cpu.cfs_quota_us': '-1',
      'cpu/cpu.cfs_period_us': '100000',
    });
    assert.deepEqual(machineMemory(files), { totalBytes: 16_384 * MIB, availableBytes: 8192 * MIB });
    assert.equal(machineProcessors(files), availableParallelism());
  });

  it("the resources of a machine are the container's limits of version 2; file caches are available", () => {
    write({
      'memory.max': `${2048 * MIB}`,
      'memory.current': `${2000 * MIB}`,
      'memory.stat': `anon 5\nactive_file ${300 * MIB}\ninactive_file ${700 * MIB}`,
      'cpu.max': '50000 100000',
    });
    assert.deepEqual(machineMemory(files), { totalBytes: 2048 * MIB, availableBytes: 1048 * MIB });
    assert.equal(machineProcessors(files), 1);
  });

  it("the resources of a machine are the container's limits of version 1", () => {
    write({
      'memory/memory.limit_in_bytes': `${2048 * MIB}`,
      'memory/memory.usage_in_bytes': `${2000 * MIB}`,
      'memory/memory.stat': `active_file 1\ntotal_active_file ${300 * MIB}\ntotal_inactive_file ${700 * MIB}`,
      'cpu/cpu.cfs_quota_us': '100000',
      'cpu/cpu.cfs_period_us': '100000',
    });
    assert.deepEqual(machineMemory(files), { totalBytes: 2048 * MIB, availableBytes: 1048 * MIB });
    assert.equal(machineProcessors(files), 1);
  });
});
