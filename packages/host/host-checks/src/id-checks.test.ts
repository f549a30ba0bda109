import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { FIRST_OWNER_ID, FIRST_SANDBOX_ID, IDS_PER_SANDBOX, LAST_OWNER_ID } from '@cloche/layout';
import { checkSandboxIds, type IdSources } from './id-checks.ts';

const ALONE: IdSources = {
  passwd: 'root:x:0:0:root:/root:/bin/bash\nnobody:x:65534:65534::/:/bin/false\n',
  group: 'root:x:0:\n',
  subuid: 'ann:100000:65536\n',
  subgid: 'ann:100000:65536\n',
  processUsers: [0, 33, FIRST_SANDBOX_ID + 3 * IDS_PER_SANDBOX + 1000],
  slots: [3],
};

const check = (changes: Partial<IdSources> = {}) => checkSandboxIds(async () => ({ ...ALONE, ...changes }));

describe('the host ids of sandboxes', () => {
  it('the host ids of sandboxes are free where only sandboxes use them', async () => {
    assert.equal((await check()).status, 'ok');
  });

  it('the host ids of sandboxes are free where a sandbox ends while they are examined', async () => {
    const looks = [
      { ...ALONE, slots: [] },
      { ...ALONE, processUsers: [0, 33], slots: [] },
    ];
    assert.equal((await checkSandboxIds(async () => looks.shift() ?? ALONE)).status, 'ok');
  });

  const overlaps: Record<string, Partial<IdSources>> = {
    [`user ann has ${FIRST_SANDBOX_ID}`]: { passwd: `ann:x:${FIRST_SANDBOX_ID}:1::/:/bin/sh\n` },
    [`group staff has ${LAST_OWNER_ID}`]: { group: `staff:x:${LAST_OWNER_ID}:\n` },
    'subuid ann has 268400000 to 268499999': { subuid: 'ann:268400000:100000\n' },
    'subgid ann has 1 to 2000000000': { subgid: 'ann:1:2000000000\n' },
    [`a process has ${FIRST_SANDBOX_ID + 1000}`]: { processUsers: [FIRST_SANDBOX_ID + 1000] },
    [`a process has ${FIRST_OWNER_ID + 3}`]: { processUsers: [FIRST_OWNER_ID + 3] },
  };
  for (const [found, changes] of Object.entries(overlaps)) {
    it(`the host ids of sandboxes are a warning where ${found}`, async () => {
      const finding = await check(changes);
      assert.deepEqual([finding.status, finding.found], ['warning', found]);
    });
  }
});
