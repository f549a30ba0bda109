import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { checkCgroupMoves, findV2Hierarchy, speedUpCgroupMoves } from './cgroup-moves.ts';

const V1 = '30 25 0:26 / /sys/fs/cgroup/memory rw,nosuid - cgroup cgroup rw,memory';
const V2 = '31 25 0:27 / /sys/fs/cgroup/unified rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate,favordynmods';

describe('the v2 hierarchy of cgroups', () => {
  it('the v2 hierarchy of cgroups is found on a hybrid host, with its mount options', () => {
    const options = ['rw', 'nsdelegate', 'favordynmods'];
    assert.deepEqual(findV2Hierarchy(`${V1}\n${V2}\n`), {
      mountPoint: '/sys/fs/cgroup/unified',
      type: 'cgroup2',
      options,
    });
  });

  it('the v2 hierarchy of cgroups is not found on a host with v1 only', () => {
    assert.equal(findV2Hierarchy(`${V1}\n`), undefined);
  });
});

describe('moves between cgroups', () => {
  it("moves between cgroups are sped up once, and checked against the kernel's mount options", async () => {
    const [phrase] = await speedUpCgroupMoves();
    const { status } = await checkCgroupMoves();
    if (phrase?.includes('stays') === true) assert.equal(status, 'warning');
    else {
      assert.deepEqual(await speedUpCgroupMoves(), []);
      assert.match(status, /^(ok|warning)$/);
    }
  });
});
