import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { Demand } from './demand.ts';
import { kindId, type PoolKind } from './pool-kind.ts';

const RESOURCES = { cpu: 1, memoryBytes: 2 ** 30, diskBytes: 2 ** 31, pids: 512 };
const PYTHON = kind('tplv_python');
const NODE = kind('tplv_node');
const GATED: PoolKind = { ...PYTHON, network: 'gated' };
const MINUTE = 60_000;
const ONE = () => 1;

function kind(templateVersionId: string): PoolKind {
  return { templateVersionId, network: 'open', resources: RESOURCES };
}

describe('the shares of a pool', () => {
  let now = 0;
  const demandOf = (...asked: PoolKind[]) => {
    const demand = new Demand(() => now);
    demand.seed([PYTHON, NODE]);
    for (const one of asked) demand.note(one);
    return demand;
  };
  const sharesOf = (demand: Demand, size: number) =>
    [PYTHON, NODE, GATED].map((one) => demand.shares(size, ONE).get(kindId(one))?.share ?? 0);

  test('the shares of a pool are equal before the first request', () => {
    assert.deepEqual(sharesOf(demandOf(), 10), [5, 5, 0]);
  });

  test('the shares of a pool follow the requests, and a kind without requests keeps a small share', () => {
    assert.deepEqual(sharesOf(demandOf(PYTHON), 10), [8, 2, 0]);
    assert.deepEqual(sharesOf(demandOf(PYTHON, PYTHON, PYTHON, NODE), 12), [8, 4, 0]);
  });

  test('the shares of a pool include another kind after its second request', () => {
    assert.deepEqual(sharesOf(demandOf(PYTHON, GATED), 9)[2], 0);
    assert.ok((sharesOf(demandOf(PYTHON, GATED, GATED), 9)[2] ?? 0) >= 2);
  });

  test('drop another kind after a long time without requests', () => {
    const demand = demandOf(PYTHON, GATED, GATED);
    now += 30 * MINUTE;
    assert.equal(sharesOf(demand, 9)[2], 0);
  });

  test("the shares of a pool never exceed the pool's size in total", () => {
    for (let size = 0; size < 40; size += 1) {
      const demand = demandOf(PYTHON, PYTHON, NODE, GATED, GATED, GATED);
      for (let other = 0; other < 5; other += 1) for (const _ of [1, 2]) demand.note(kind(`tplv_${other}`));
      const shares = [...demand.shares(size, ONE).values()];
      const sum = shares.reduce((total, { share }) => total + share, 0);
      assert.equal(sum, size, `${size}`);
      assert.ok(shares.every(({ share }) => share > 0));
    }
  });

  test("the shares of a pool never exceed the pool's size in places, which a large instance takes several of", () => {
    const OWN = kind('tplv_own');
    const placesOf = (id: string) => (id === OWN.templateVersionId ? 5 : 1);
    for (let size = 0; size < 80; size += 1) {
      const shares = demandOf(OWN, OWN, OWN, PYTHON).shares(size, placesOf);
      const own = shares.get(kindId(OWN))?.share ?? 0;
      const taken = [...shares.values()].reduce(
        (sum, { kind, share }) => sum + share * placesOf(kind.templateVersionId),
        0,
      );
      assert.ok(taken <= size, `${taken} of ${size}`);
      assert.equal(own > 0, size >= 5, `${own} of the requested kind in ${size} places`);
      assert.ok([...shares.values()].every(({ share }) => share > 0));
    }
    // Two of each take 14 places. Of the 28 others, three quarters are 21, so four more; then 7, and one is left.
    const shares = demandOf(OWN, OWN, OWN, PYTHON).shares(42, placesOf);
    assert.deepEqual(
      [OWN, PYTHON, NODE].map((one) => shares.get(kindId(one))?.share),
      [6, 9, 3],
    );
  });

  test('the shares of a pool of one owner take at most half of the pool together, or one instance that takes more', () => {
    const placesOf = (id: string) => (id.startsWith('tplv_own') ? 5 : 1);
    const owned = (name: string, owner: string): PoolKind => ({ ...kind(name), owner });
    const takenBy = (owner: string, size: number, ...asked: PoolKind[]) =>
      [
        ...demandOf(...asked, ...asked)
          .shares(size, placesOf)
          .values(),
      ]
        .filter(({ kind }) => kind.owner === owner)
        .reduce((sum, { kind, share }) => sum + share * placesOf(kind.templateVersionId), 0);
    const ofOne = [owned('tplv_own1', 'org_a'), owned('tplv_own2', 'org_a')];
    for (let size = 0; size < 80; size += 1) {
      const taken = takenBy('org_a', size, ...ofOne, ...ofOne);
      assert.ok(taken <= Math.max(size / 2, 5), `${taken} of ${size}`);
      assert.equal(taken > 0, size >= 5, `${taken} of ${size}`);
    }
    assert.equal(takenBy('org_b', 40, ...ofOne, ...ofOne, owned('tplv_own3', 'org_b')), 10);
  });

  test('the shares of a pool are not taken from a requester by the many kinds of another', () => {
    const demand = demandOf();
    for (const _ of [1, 2]) demand.note(GATED, 'org_a');
    for (let other = 0; other < 100; other += 1) {
      for (const _ of [1, 2, 3]) demand.note(kind(`tplv_${other}`), 'org_b');
    }
    assert.ok((sharesOf(demand, 100)[2] ?? 0) > 0);
    assert.equal(demand.shares(100, ONE).size, 3 + 4);
  });

  test('the shares of a pool include a kind that is expected, and forget it after a while', () => {
    const demand = demandOf();
    demand.expect(GATED);
    assert.ok((sharesOf(demand, 9)[2] ?? 0) > 0);
    assert.ok(demand.remembers(kindId(GATED)) && demand.remembers(kindId(PYTHON)));
    now += 30 * MINUTE;
    assert.deepEqual(
      [GATED, PYTHON].map((one) => demand.remembers(kindId(one))),
      [false, true],
    );
  });

  test('the shares of a pool move to the version that replaced a template, when it becomes a seed', () => {
    const demand = demandOf(PYTHON, PYTHON);
    const next = kind('tplv_python2');
    demand.keepTemplates(new Set(['tplv_python2', 'tplv_node']));
    demand.seed([next, NODE]);
    assert.deepEqual(sharesOf(demand, 10), [0, 5, 0]);
    assert.equal(demand.shares(10, ONE).get(kindId(next))?.share, 5);
  });

  test('mark a kind as just requested for a moment', () => {
    const demand = demandOf(PYTHON);
    const pressing = () => [PYTHON, NODE, GATED].map((one) => demand.wasJustRequested(kindId(one)));
    assert.deepEqual(pressing(), [true, false, false]);
    now += 2000;
    assert.deepEqual(pressing(), [false, false, false]);
  });

  test('the shares of a pool cover a limited number of kinds, whatever clients request', () => {
    const demand = demandOf();
    for (let other = 0; other < 1000; other += 1) for (const _ of [1, 2]) demand.note(kind(`tplv_${other}`));
    assert.ok(demand.shares(10_000, ONE).size <= 20);
    assert.ok((demand.shares(10_000, ONE).get(kindId(PYTHON))?.share ?? 0) > 0);
  });
});
