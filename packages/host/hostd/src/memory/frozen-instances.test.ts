import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import type { SwapDevice } from '@cloche/layout';
import { type InstanceKey, instanceKey } from '../instance/instance-key.ts';
import { FrozenInstances, type FrozenInstancesOptions } from './frozen-instances.ts';
import { memoryMetrics } from './memory-metrics.ts';

const MIB = 1024 * 1024;
const GIB = 1024 * MIB;
const keyOf = (sandboxId: string): InstanceKey => instanceKey({ sandboxId, generation: 1 });
const [A, B, C] = ['sbx_a', 'sbx_b', 'sbx_c'].map(keyOf) as [InstanceKey, InstanceKey, InstanceKey];

const ZRAM: SwapDevice = { path: '/dev/zram1', sizeBytes: GIB, usedBytes: 60 * MIB, memoryBytes: 20 * MIB };
const DISK: SwapDevice = { path: '/dev/sda2', sizeBytes: GIB, usedBytes: 0, memoryBytes: undefined };

interface World {
  limitMb?: number;
  swap?: readonly SwapDevice[];
  canReclaim?: boolean;
  freeze?: (key: InstanceKey) => Promise<void>;
}

/** Instances that hold 30 MiB each, of which a reclaim leaves one. */
function frozenOf({ limitMb = 1000, swap = [ZRAM], canReclaim = true, freeze }: World = {}) {
  const frozen = new Set<string>();
  const steps: string[] = [];
  const memory = new Map([A, B, C].map((key) => [key, { residentBytes: 30 * MIB, swappedBytes: 0 }]));
  const cgroups = {
    freezer: {
      isFrozen: (key: string) => frozen.has(key),
      freeze: async (key: InstanceKey) => {
        await freeze?.(key);
        frozen.add(key);
      },
      thaw: (key: string) => {
        steps.push(`thaw ${key}`);
        frozen.delete(key);
      },
    },
    swap: {
      canReclaim,
      keepInMemory: (key = 'all') => steps.push(`keep ${key}`),
      preferSwap: (key: string) => steps.push(`swap ${key}`),
      emptying: (key: string) => ({ file: key, text: '0' }),
    },
  } as unknown as FrozenInstancesOptions['cgroups'];
  const instances = new FrozenInstances({
    cgroups,
    usage: { held: (key) => memory.get(key as InstanceKey) },
    limitBytes: limitMb * MIB,
    reclaimMs: 3_600_000,
    swap: () => swap,
    reclaim: async ({ file }) => {
      steps.push(`reclaim ${file}`);
      memory.set(file as InstanceKey, { residentBytes: MIB, swappedBytes: 29 * MIB });
      return 1;
    },
  });
  return { instances, frozen, steps, memory, [Symbol.asyncDispose]: () => instances.close() };
}

describe('frozen instances', () => {
  it('frozen instances give their memory first, and keep it from the moment before they go on', async () => {
    await using world = frozenOf();
    const { instances, steps } = world;
    await instances.freeze(A);
    assert.ok(instances.has(A));
    instances.thaw(A);
    assert.deepEqual(steps, [`swap ${A}`, `keep ${A}`, `thaw ${A}`]);
    assert.equal(instances.has(A), false);
  });

  it('frozen instances of an earlier hostd are counted, and the others keep their memory', async () => {
    await using world = frozenOf();
    const { instances, frozen, steps } = world;
    frozen.add(B);
    instances.open([A, B]);
    assert.deepEqual(steps, ['keep all', `keep ${A}`, `swap ${B}`]);
    assert.equal(instances.bytes.resident, 30 * MIB);
  });

  const HELD: readonly [title: string, swap: readonly SwapDevice[], compressedMb: number][] = [
    ['zram takes a third', [ZRAM], 10],
    ['a disk takes no memory', [{ ...DISK, usedBytes: 30 * MIB }], 0],
    ['half of it is on a disk', [ZRAM, { ...DISK, usedBytes: 60 * MIB }], 5],
    ['zram that compresses nothing takes no more than was swapped', [{ ...ZRAM, memoryBytes: 90 * MIB }], 30],
    ['the swap is gone', [], 0],
    ['the swap is empty', [{ ...ZRAM, usedBytes: 0 }], 0],
  ];
  for (const [title, swap, compressedMb] of HELD) {
    it(`frozen instances hold what is in memory, and what zram needs for the rest: ${title}`, async () => {
      await using world = frozenOf({ swap });
      const { instances, memory } = world;
      await instances.freeze(A);
      await instances.freeze(B);
      memory.set(A, { residentBytes: 2 * MIB, swappedBytes: 30 * MIB });
      await instances.measure();
      assert.deepEqual(instances.bytes, { resident: 32 * MIB, compressed: compressedMb * MIB });
      assert.match(memoryMetrics(instances.bytes), /^cloche_hostd_paused_bytes\{kind="resident"\} 33554432$/m);
    });
  }

  it('frozen instances are refused beyond their bound, and one that is frozen already is not', async () => {
    await using world = frozenOf({ limitMb: 60, swap: [] });
    const { instances, frozen } = world;
    await instances.freeze(A);
    await instances.freeze(B);
    await assert.rejects(instances.freeze(C), { code: 'no_capacity', message: /30 MiB more than 60 MiB/ });
    assert.deepEqual([frozen.has(C), instances.has(C)], [false, false]);
    await instances.freeze(B);
    instances.thaw(A);
    await instances.freeze(C);
  });

  it('frozen instances make room by their memory before one is refused', async () => {
    await using world = frozenOf({ limitMb: 75 });
    const { instances, steps } = world;
    for (const key of [A, B, C]) await instances.freeze(key);
    assert.ok(steps.includes(`reclaim ${A}`));
    assert.ok(!steps.includes(`reclaim ${B}`), 'no more than is needed');
    assert.equal(instances.swappedBytes(A), 29 * MIB);
  });

  it('frozen instances at the same time do not get the same room', async () => {
    await using world = frozenOf({ limitMb: 60, swap: [], freeze: async () => setImmediate() });
    const { instances } = world;
    const ends = await Promise.allSettled([A, B, C].map((key) => instances.freeze(key)));
    assert.deepEqual(ends.map(({ status }) => status).toSorted(), ['fulfilled', 'fulfilled', 'rejected']);
  });

  it('an instance that does not freeze is not counted', async () => {
    const freeze = async () => {
      throw new Error('its processes did not stop');
    };
    await using world = frozenOf({ freeze });
    const { instances } = world;
    await assert.rejects(instances.freeze(A), /did not stop/);
    assert.deepEqual([instances.has(A), instances.bytes.resident], [false, 0]);
  });

  const NOT_RECLAIMED: readonly [title: string, world: World][] = [
    ['there is no swap', { swap: [] }],
    ['the swap is full', { swap: [{ ...ZRAM, usedBytes: ZRAM.sizeBytes }] }],
    ['the swap has less room than it holds', { swap: [{ ...ZRAM, usedBytes: ZRAM.sizeBytes - 29 * MIB }] }],
    ['the control groups cannot do it', { canReclaim: false }],
  ];
  for (const [title, world] of NOT_RECLAIMED) {
    it(`the memory of a frozen instance stays where it is: ${title}`, async () => {
      await using made = frozenOf(world);
      const { instances, steps } = made;
      await instances.freeze(A);
      await instances.hurry(() => false);
      assert.ok(!steps.some((step) => step.startsWith('reclaim')), steps.join());
    });
  }

  it('an instance that is gone is no longer counted, whoever removed it', async () => {
    await using world = frozenOf();
    const { instances, memory } = world;
    await instances.freeze(A);
    await instances.freeze(B);
    memory.delete(A);
    await instances.measure();
    instances.forget(B);
    assert.deepEqual(instances.bytes, { resident: 0, compressed: 0 });
  });
});
