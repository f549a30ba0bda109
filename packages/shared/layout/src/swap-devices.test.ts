import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { after, describe, it } from 'node:test';
import { swapDevices } from './swap-devices.ts';

const HEAD = 'Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n';
/** As the kernel writes it (Documentation/admin-guide/blockdev/zram.rst). */
const MM_STAT = '  41943040 13631488 15728640 1610612736 15728640      256        0        0        0\n';
const KIB = 1024;

const folder = mkdtempSync(join(tmpdir(), 'cloche-swap-'));
after(() => rmSync(folder, { recursive: true }));
let machines = 0;

function machine(files: Record<string, string>) {
  machines += 1;
  const root = join(folder, String(machines));
  mkdirSync(root);
  for (const [name, text] of Object.entries(files)) {
    mkdirSync(dirname(join(root, name)), { recursive: true });
    writeFileSync(join(root, name), text);
  }
  return { swaps: join(root, 'swaps'), blocks: join(root, 'block') };
}

describe('swapDevices', () => {
  const CASES: readonly [title: string, line: string, path: string, memoryBytes: number | undefined][] = [
    ['zram', '/dev/zram1                              partition\t37748732\t41000\t\t100', '/dev/zram1', 15728640],
    ['a zram device that is just removed', '/dev/zram7\tpartition\t4\t0\t100', '/dev/zram7', 0],
    ['a partition', '/dev/sda2                               partition\t8388604\t0\t\t-2', '/dev/sda2', undefined],
    ['a file', '/swapfile                               file\t\t524284\t\t1024\t\t-2', '/swapfile', undefined],
    ['a file with a space in its name', '/my\\040swap file\t4\t0\t-2', '/my swap', undefined],
    ['a file that is named as a device', '/data/zram1.swap\tfile\t4\t0\t-2', '/data/zram1.swap', undefined],
    ['a mapped disk', '/dev/dm-0\tpartition\t4\t0\t-2', '/dev/dm-0', undefined],
  ];
  for (const [title, line, path, memoryBytes] of CASES) {
    it(`swapDevices tells the sizes of swap, and the memory that it takes: ${title}`, () => {
      const [found, ...others] = swapDevices(
        machine({ swaps: `${HEAD}${line}\n`, 'block/zram1/mm_stat': MM_STAT, 'block/sda/size': '1' }),
      );
      assert.deepEqual(others, []);
      const [size, used] = line.split(/\s+/).slice(2);
      assert.deepEqual(found, {
        path,
        sizeBytes: Number(size) * KIB,
        usedBytes: Number(used) * KIB,
        memoryBytes,
      });
    });
  }

  it('swapDevices finds no swap on a machine without, and on one whose kernel has none', () => {
    assert.deepEqual(swapDevices(machine({ swaps: HEAD })), []);
    assert.deepEqual(swapDevices(machine({})), []);
    assert.ok(Array.isArray(swapDevices()));
  });
});
