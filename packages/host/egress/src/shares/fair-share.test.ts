import assert from 'node:assert/strict';
import { beforeEach, describe, test } from 'node:test';
import { FairShare } from './fair-share.ts';

let evicted: string[];
let share: FairShare;
beforeEach(() => {
  evicted = [];
  share = new FairShare({ total: 6, perSource: 4 });
});

function enter(source: string, name: string, isIdle = false): Disposable | undefined {
  return share.tryEnter(source, { isIdle, evict: () => evicted.push(name) });
}

function fill(source: string, count: number): (Disposable | undefined)[] {
  return Array.from({ length: count }, (_, index) => enter(source, `${source}${index}`));
}

describe('a share', () => {
  test('a share bounds each source, and gives places back', () => {
    const places = fill('a', 5);
    assert.deepEqual(
      places.map((place) => place !== undefined),
      [true, true, true, true, false],
    );
    places[0]?.[Symbol.dispose]();
    places[0]?.[Symbol.dispose]();
    assert.ok(enter('a', 'again'));
    assert.equal(enter('a', 'too many'), undefined);
    assert.deepEqual([evicted, share.total], [[], 4]);
  });

  test('a share that is full takes one from the greediest for every source below it, until all are even', () => {
    fill('a', 4);
    fill('b', 2);
    assert.ok(enter('c', 'c0'));
    assert.ok(enter('c', 'c1'));
    assert.deepEqual(evicted, ['a3', 'a2']);
    // Three sources with two each: no source may get more by taking from another one.
    for (const source of ['a', 'b', 'c']) assert.equal(enter(source, 'more'), undefined, source);
    assert.deepEqual([evicted.length, share.total], [2, 6]);
  });

  test('evicts the oldest of the idle ones first, and for the greediest one of its own', () => {
    const held = [true, false, true, false].map((isIdle, index) => enter('a', `a${index}`, isIdle));
    fill('b', 2);
    assert.ok(enter('c', 'c0'));
    assert.deepEqual(evicted, ['a0']);
    // It has been evicted already, so disposing of it changes nothing.
    held[0]?.[Symbol.dispose]();
    assert.equal(share.total, 6);
    assert.ok(enter('a', 'new'));
    assert.deepEqual(evicted, ['a0', 'a2']);
    assert.equal(enter('a', 'nothing idle is left'), undefined);
  });
});
