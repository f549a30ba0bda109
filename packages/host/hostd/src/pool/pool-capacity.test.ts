import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { PoolCapacity } from './pool-capacity.ts';

const MEBIBYTE = 1024 * 1024;

describe('the places of a pool that an instance takes', () => {
  test('the places of a pool that an instance takes are as many as its memory needs, where it loads Python itself, and otherwise one', () => {
    const places = new PoolCapacity(24 * MEBIBYTE);
    places.expectOwnZygote('tplv_own');
    assert.deepEqual([places.of('tplv_curated'), places.of('tplv_own')], [1, 5]);
    places.note('tplv_own', 480 * MEBIBYTE);
    assert.equal(places.of('tplv_own'), 20);
  });

  test('the places of a pool that an instance takes do not become fewer when an instance holds less, or another one is made', () => {
    const places = new PoolCapacity(24 * MEBIBYTE);
    places.expectOwnZygote('tplv_own');
    places.note('tplv_own', 480 * MEBIBYTE);
    places.note('tplv_own', MEBIBYTE);
    places.expectOwnZygote('tplv_own');
    assert.equal(places.of('tplv_own'), 20);
  });

  test('the places of a pool that an instance takes are one where the pool counts instances, and where a place has room for Python', () => {
    for (const placeBytes of [Number.POSITIVE_INFINITY, 160 * MEBIBYTE]) {
      const places = new PoolCapacity(placeBytes);
      places.expectOwnZygote('tplv_own');
      assert.equal(places.of('tplv_own'), 1);
    }
  });

  test('the places of a pool that an instance takes are forgotten with the version', () => {
    const places = new PoolCapacity(24 * MEBIBYTE);
    places.expectOwnZygote('tplv_own');
    places.keep(new Set(['tplv_other']));
    assert.deepEqual([places.of('tplv_own'), places.hasOwnZygote('tplv_own')], [1, false]);
  });
});
