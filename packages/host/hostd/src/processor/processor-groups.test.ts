import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import type { InstanceKey } from '../instance/instance-key.ts';
import { ProcessorGroups } from './processor-groups.ts';

const KEY = 'sbx_a-1' as InstanceKey;
/** A file that counts 2.5 s of processor time in an instance's group. */
const COUNTERS = {
  'control groups v1': { file: 'cpuacct/ours/sbx_a-1/cpuacct.usage', content: '2500000000\n' },
  'control groups v2': {
    file: 'unified/ours/sbx_a-1/cpu.stat',
    content: 'usage_usec 2500000\nuser_usec 2000000\nsystem_usec 500000\nnr_periods 0\n',
  },
};

for (const [hierarchy, { file, content }] of Object.entries(COUNTERS)) {
  test(`the processor groups reads the processor time of an instance from ${hierarchy}, and nothing once its group is gone`, () => {
    const dir = mkdtempSync(join(tmpdir(), 'cloche-cpu-'));
    try {
      const at = (name: string) => join(dir, name);
      const mounted =
        hierarchy === 'control groups v2'
          ? [{ mountPoint: at('unified'), version: 2 as const, controllers: [] }]
          : [
              { mountPoint: at('cpu'), version: 1 as const, controllers: ['cpu'] },
              { mountPoint: at('cpuacct'), version: 1 as const, controllers: ['cpuacct'] },
            ];
      const groups = new ProcessorGroups('ours', mounted);
      assert.equal(groups.usedUs(KEY), undefined);
      mkdirSync(dirname(at(file)), { recursive: true });
      writeFileSync(at(file), content);
      assert.equal(groups.usedUs(KEY), 2_500_000);
    } finally {
      rmSync(dir, { recursive: true });
    }
  });
}
