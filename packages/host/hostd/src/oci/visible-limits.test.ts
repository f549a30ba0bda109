import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { threadLimits, visibleLimits } from './visible-limits.ts';

const RESOURCES = { cpu: 1, memoryBytes: 512 * 1024 * 1024, diskBytes: 2 ** 30, pids: 100 };
const CPUINFO = [0, 1, 2].map((number) => `processor\t: ${number}\nmodel name\t: x\n\n`).join('');

function contentOf(path: string, changes: Partial<typeof RESOURCES> = {}) {
  const limits = visibleLimits({ ...RESOURCES, ...changes }, { cpuinfo: CPUINFO });
  return limits.find((limit) => limit.path === path)?.content ?? assert.fail(`nothing at ${path}`);
}

describe('the limits that a sandbox sees', () => {
  test('the limits that a sandbox sees are its memory, without swap', () => {
    const meminfo = contentOf('/proc/meminfo');
    assert.match(meminfo, /^MemTotal: +524288 kB$/m);
    assert.match(meminfo, /^MemAvailable: +524288 kB$/m);
    assert.match(meminfo, /^SwapTotal: +0 kB$/m);
  });

  test('the limits that a sandbox sees are as many processors as it may keep busy, rounded up', () => {
    for (const cpu of [0.1, 0.5, 1]) {
      assert.equal(contentOf('/sys/devices/system/cpu/online', { cpu }), '0\n');
      assert.deepEqual(contentOf('/proc/cpuinfo', { cpu }).match(/^processor.*$/gm), ['processor\t: 0']);
      assert.equal(threadLimits({ ...RESOURCES, cpu }).OMP_NUM_THREADS, '1');
    }
  });

  test("the limits that a sandbox sees never exceed the host's", () => {
    const online = contentOf('/sys/devices/system/cpu/online', { cpu: 256 });
    assert.equal(
      Number(online.split('-').at(-1)) + 1,
      Number(threadLimits({ ...RESOURCES, cpu: 256 }).OMP_NUM_THREADS),
    );
    assert.ok(Number(online.split('-').at(-1)) < 256);
  });
});
