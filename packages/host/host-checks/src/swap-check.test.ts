import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { checkSwap, type FoundSwap, judgeSwap } from './swap-check.ts';

const GIB = 1024 ** 3;
const swapOf = (kind: FoundSwap['kind'], path = '/dev/x') => ({ path, sizeBytes: 2 * GIB, kind });
const V1 = { canReclaim: true, hasZram: true };

const CASES: readonly [title: string, host: Parameters<typeof judgeSwap>[0], status: string, text: RegExp][] = [
  ['no swap, and zram is possible', { ...V1, swap: [] }, 'warning', /CLOCHE_ZRAM=on it keeps about 8 MiB/],
  ['no swap, and no zram', { ...V1, swap: [], hasZram: false }, 'warning', /CONFIG_ZRAM/],
  ['zram', { ...V1, swap: [swapOf('memory')] }, 'ok', /\/dev\/x 2\.0 GiB/],
  ['an encrypted disk', { ...V1, swap: [swapOf('encrypted')] }, 'ok', /2\.0 GiB/],
  ['a disk', { ...V1, swap: [swapOf('disk', '/dev/sda2')] }, 'warning', /swapoff \/dev\/sda2` and set CLOCHE_ZRAM/],
  [
    'zram before a disk',
    { ...V1, swap: [swapOf('memory'), swapOf('disk', '/swap')] },
    'warning',
    /swapoff \/swap` and set CLOCHE_ZRAM/,
  ],
  ['version 2 without swap', { ...V1, swap: [], canReclaim: false }, 'ok', /none; .* cgroups v2 are not supported/],
  ['version 2 with a disk', { ...V1, swap: [swapOf('disk')], canReclaim: false }, 'warning', /unencrypted/],
];

describe('the check of swap', () => {
  for (const [title, host, status, text] of CASES) {
    it(`the check of swap says where the memory of paused sandboxes goes: ${title}`, () => {
      const finding = judgeSwap(host);
      assert.equal(finding.status, status);
      assert.match(`${finding.found} ${finding.remedy}`, text);
    });
  }

  it('the check of swap looks at this machine', async () => {
    assert.equal((await checkSwap()).name, 'swap');
  });
});
