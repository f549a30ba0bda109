import assert from 'node:assert/strict';
import { test } from 'node:test';
import { KeyCounts } from './key-counts.ts';

test('the count of a key has what was added and not disposed of', () => {
  const counts = new KeyCounts<string>();
  const [first, second] = [counts.add('a'), counts.add('a')];
  const other = counts.add('b');
  assert.deepEqual([counts.of('a'), counts.of('b'), counts.of('c'), counts.total], [2, 1, 0, 3]);
  assert.deepEqual([counts.keysWith(2), counts.keysWith(1)], [['a'], ['a', 'b']]);
  first[Symbol.dispose]();
  first[Symbol.dispose]();
  assert.deepEqual([counts.of('a'), counts.total], [1, 2], 'a second disposal changes nothing');
  second[Symbol.dispose]();
  other[Symbol.dispose]();
  assert.deepEqual([counts.keysWith(1), counts.total], [[], 0]);
});

test('the count of a key tells work that overlaps other work of the key, also if that fails', async () => {
  const counts = new KeyCounts<string>();
  const first = Promise.withResolvers<void>();
  const told: Record<string, boolean> = {};
  const during = async (key: string, as: string, work?: Promise<void>) => {
    told[as] = counts.of(key) > 0;
    using _ = counts.add(key);
    await work;
  };
  const failed = during('a', 'first', first.promise);
  await during('a', 'second');
  await during('b', 'of another name');
  first.reject(new Error('failed'));
  await assert.rejects(failed, /failed/);
  await during('a', 'later');
  assert.deepEqual(told, { first: false, second: true, 'of another name': false, later: false });
});
