import assert from 'node:assert/strict';
import { test } from 'node:test';
import { eventually } from '@cloche/testkit/eventually';
import { pooledInstanceKey } from '../instance/instance-key.ts';
import { identifyProcess } from '../linux/process-identity.ts';
import { KernelForks } from './kernel-forks.ts';

const TARGET = {
  source: { kind: 'template', templateVersionId: 'tplv_a' } as const,
  init: identifyProcess(process.pid) ?? assert.fail('not alive'),
};

test('a sandbox that delays its forks does not delay those of other sandboxes', async () => {
  const held = Promise.withResolvers<void>();
  const [hostile, neighbour] = [pooledInstanceKey(), pooledInstanceKey()];
  const forks = new KernelForks({
    prepare: () => {},
    serves: () => true,
    ready: async () => {},
    fork: (key) => (key === hostile ? held.promise : Promise.resolve()),
    close: async () => {},
  });
  const started = Array.from({ length: 300 }, () => forks.provide(hostile, TARGET));
  const refused = await Promise.all(started.slice(16).map((fork) => fork.catch(String)));
  assert.equal(refused.length, 284);
  for (const reason of refused) assert.match(String(reason), /16 forks into pool_\w+ are under way already/);
  await forks.provide(neighbour, TARGET);

  held.resolve();
  await Promise.all(started.slice(0, 16));
  await forks.provide(hostile, TARGET);
});

test('an instance that is frozen while its zygote loads gets no kernel ahead of demand', async () => {
  const loaded = Promise.withResolvers<void>();
  const [frozen, other] = [pooledInstanceKey(), pooledInstanceKey()];
  const forked: string[] = [];
  let isLoaded = false;
  const forks = new KernelForks({
    prepare: () => {},
    serves: () => isLoaded,
    ready: () => loaded.promise,
    fork: async (key) => {
      if (!isLoaded) throw new Error('the zygote is loading');
      forked.push(key);
    },
    close: async () => {},
  });
  await Promise.all([frozen, other].map((key) => forks.addSpare(key, TARGET)));
  forks.awaitNoSpare(frozen);
  isLoaded = true;
  loaded.resolve();
  await eventually(() => forked.length > 0);
  assert.deepEqual(forked, [other]);
  assert.equal(forks.takeSpare(frozen), false);
});
