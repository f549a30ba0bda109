import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { longestTurn } from '@cloche/testkit/longest-turn';
import { Random } from '@cloche/testkit/random';
import { sortInSlices } from './sort-in-slices.ts';

interface Item {
  readonly key: number;
  readonly at: number;
}

function itemsOf(count: number, keys: number): Item[] {
  const random = new Random(count);
  return Array.from({ length: count }, (_, at) => ({ key: random.below(keys), at }));
}

const byKey = (one: Item, other: Item) => one.key - other.key;

describe('sorting in slices', () => {
  it('sorting in slices gives the order that Node.js gives, for every length, equal items included', async () => {
    for (const count of [0, 1, 2, 255, 256, 257, 511, 512, 513, 1_000, 5_000]) {
      const items = itemsOf(count, 100);
      assert.deepEqual(await sortInSlices(items, byKey), items.toSorted(byKey));
    }
  });

  it('sorting in slices lets other work in between', async () => {
    const items = itemsOf(100_000, 1e9);
    const atOnce = await longestTurn(async () => items.toSorted(byKey));

    const sliced = await longestTurn(() => sortInSlices(items, byKey));

    assert.ok(sliced < atOnce / 2, `${sliced} ms of ${atOnce} ms`);
  });
});
