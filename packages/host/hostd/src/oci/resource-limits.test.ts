import assert from 'node:assert/strict';
import { test } from 'node:test';
import { resourceLimits } from './resource-limits.ts';

const OWN = `Limit                     Soft Limit           Hard Limit           Units
Max core file size        0                    unlimited            bytes
Max open files            20000                20000                files
Max pending signals       96364                96364                signals
`;

test('a sandbox has the intended resource limits, at most those of hostd', () => {
  const values = Object.fromEntries(resourceLimits(OWN).map(({ name, value }) => [name, value]));
  assert.deepEqual(
    { nofile: values.nofile, core: values.core, sigpending: values.sigpending, rtprio: values.rtprio },
    { nofile: 20_000, core: 0, sigpending: 4096, rtprio: 0 },
  );
});

test('every limit that this kernel knows is found by its label', () => {
  const labels = resourceLimits().map(({ label }) => label);
  assert.equal(new Set(labels).size, labels.length);
});
