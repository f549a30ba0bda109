import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { pino } from 'pino';
import { FakePoolMaker } from '../../testing/fake-pool-maker.ts';
import { until } from '../base/until.ts';
import type { InstanceKey } from '../instance/instance-key.ts';
import { Demand } from './demand.ts';
import type { PoolKind } from './pool-kind.ts';
import { WarmPool } from './warm-pool.ts';

const RESOURCES = { cpu: 1, memoryBytes: 2 ** 30, diskBytes: 2 ** 31, pids: 512 };
const OPEN: PoolKind = { templateVersionId: 'tplv_a', network: 'open', resources: RESOURCES };
const OWN: PoolKind = { ...OPEN, templateVersionId: 'tplv_own' };
const CLOSED: PoolKind = { ...OPEN, network: 'none' };

const PARALLEL_LAUNCHES = 2;
const HOUR_MS = 3_600_000;
const never = new AbortController().signal;

const PATIENT = { windowMs: HOUR_MS, mostWindows: 1 };

function openPool(
  size: number,
  {
    now,
    making = PATIENT,
    maker = new FakePoolMaker(),
  }: { now?: () => number; making?: typeof PATIENT; maker?: FakePoolMaker } = {},
) {
  const demand = new Demand(now);
  demand.seed([OPEN]);
  const pool = new WarmPool({
    size,
    parallelLaunches: PARALLEL_LAUNCHES,
    demand,
    maker,
    log: pino({ level: 'silent' }),
    making,
  });
  pool.open();
  const filled = () => until('the pool is full', () => pool.state().ready === size);
  const take = (kind: PoolKind) => pool.take(kind, new AbortController().signal, async (key) => key);
  return { maker, demand, pool, filled, take, [Symbol.asyncDispose]: () => pool.close() };
}

/** Waits long enough for immediate work to start, and far less than the pool's quiet time. */
async function turns(): Promise<void> {
  for (let turn = 0; turn < 20; turn += 1) await setImmediate();
}

describe('a warm pool', () => {
  test('fills to its size, one after another', async () => {
    await using world = openPool(5);
    await world.filled();
    assert.equal(world.maker.living.size, 5);
    assert.equal(world.maker.mostUnderWay, 1);
  });

  for (const [what, msPerLook, launches] of [
    ['ends a launch that neither finishes nor computes', 0, 0],
    ['lets a launch finish that computes', 10, 1],
  ] as const) {
    test(what, async () => {
      const gate = Promise.withResolvers<void>();
      const maker = Object.assign(new FakePoolMaker(), { msPerLook, gate: gate.promise });
      await using _pool = openPool(1, { maker, making: { windowMs: 10, mostWindows: HOUR_MS } });
      await until('it was looked at some times', () => maker.looks > 5 || maker.failed > 0);
      gate.resolve();
      await until('the launch has ended', () => maker.underWay === 0);
      assert.equal(maker.living.size, launches);
    });
  }

  test('a warm pool hands each instance out once, and replaces it', async () => {
    await using world = openPool(3);
    await world.filled();
    const taken = await Promise.all([1, 2, 3].map(() => world.take(OPEN)));
    assert.equal(new Set(taken).size, 3);
    assert.ok(taken.every((key) => key !== undefined && !world.pool.owns(key)));
    await world.filled();
    assert.ok(!taken.includes(await world.take(OPEN)));
    assert.deepEqual(world.pool.state(), { size: 3, ready: 2, hits: 4, misses: 0 });
  });

  test('a warm pool gives an instance under launch to the first request that waits for it, and to no other', async () => {
    await using world = openPool(1);
    await world.filled();
    const gate = Promise.withResolvers<void>();
    world.maker.gate = gate.promise;
    await world.take(OPEN);
    await until('another is being launched', () => world.maker.underWay === 1);
    const left = new AbortController();
    const leaving = world.pool.take(OPEN, left.signal, async (key) => key);
    left.abort();
    assert.equal(await leaving, undefined);
    const first = world.take(OPEN);
    assert.equal(await world.take(OPEN), undefined);
    assert.equal(await world.take(CLOSED), undefined);
    gate.resolve();
    const key = await first;
    assert.ok(key !== undefined && world.maker.living.has(key) && !world.pool.owns(key));
    const { hits, misses } = world.pool.state();
    assert.deepEqual([hits, misses], [2, 3]);
  });

  test('a warm pool launches several of a kind at once, without delay, when it is requested while none is ready', async () => {
    await using world = openPool(4);
    await world.filled();
    world.maker.gate = new Promise(() => {});
    for (let taken = 0; taken < 3; taken += 1) await world.take(OPEN);
    await turns();
    assert.ok(world.maker.underWay <= 1, 'one is ready still');
    await world.take(OPEN);
    await turns();
    assert.equal(world.maker.underWay, PARALLEL_LAUNCHES);
  });

  test('a warm pool is never idle while requests take one instance after another', async () => {
    await using world = openPool(2);
    await world.filled();
    world.maker.turns = 10;
    let idleTurns = 0;
    const taking = (async () => {
      for (let asked = 0; asked < 40; asked += 1) {
        assert.ok(await world.take(OPEN));
        await setImmediate();
      }
    })();
    let isOver = false;
    const over = () => {
      isOver = true;
    };
    taking.then(over, over);
    while (!isOver) {
      if (world.maker.underWay === 0) idleTurns += 1;
      await setImmediate();
    }
    await taking;
    // In the pool's quiet time there would be thousands.
    assert.ok(idleTurns <= 40, `${idleTurns}`);
  });

  test('a warm pool gives no instance of another kind, and has that kind too after it was requested', async () => {
    await using world = openPool(4);
    await world.filled();
    assert.equal(await world.take(CLOSED), undefined);
    assert.equal(await world.take(CLOSED), undefined);
    await until('there is one', () => [...world.maker.living.values()].includes(CLOSED));
    await world.filled();
    assert.ok(world.maker.living.size <= 4);
    assert.ok(await world.take(CLOSED));
  });

  test('a warm pool has one instance of each requested kind before it has many of one', async () => {
    await using world = openPool(40);
    for (const _ of [1, 2]) world.demand.note(CLOSED);
    for (let asked = 0; asked < 20; asked += 1) world.demand.note(OPEN);
    await world.filled();
    const before = [...world.maker.living.values()].indexOf(CLOSED);
    assert.ok(before >= 0 && before < 4, `after ${before}`);
  });

  test('a warm pool removes instances of a kind that is no longer requested, although it has room for them', async () => {
    let now = 0;
    await using world = openPool(40, { now: () => now });
    for (const _ of [1, 2]) world.demand.note(OWN);
    await world.filled();
    const has = () => [...world.maker.living.values()].includes(OWN);
    assert.ok(has());
    now += HOUR_MS;
    await world.pool.refresh();
    await until('there is none', () => !has());
    await world.filled();
  });

  test('a warm pool launches an instance of an expected kind, and says when it is ready or has no place', async () => {
    await using world = openPool(4);
    await world.filled();
    await world.pool.expect(OWN, false, never);
    assert.ok([...world.maker.living.values()].includes(OWN));
    assert.ok(await world.take(OWN));
    await using empty = openPool(0);
    await empty.pool.expect(OWN, true, never);
    world.maker.places.set('tplv_large', 5);
    await world.pool.expect({ ...CLOSED, templateVersionId: 'tplv_large' }, true, never);
  });

  test('says that an expected instance is there when it is warm, and gives it to a request before', async () => {
    await using world = openPool(4);
    await world.filled();
    const gate = Promise.withResolvers<void>();
    world.maker.warmGate = gate.promise;
    let isWarm = false;
    const expected = world.pool.expect(OWN, true, never).then(() => {
      isWarm = true;
    });
    await world.pool.expect(OWN, false, never);
    const claimed = await world.take(OWN);
    assert.ok(claimed && !isWarm, 'a request takes what is there');
    await world.pool.expect(OWN, false, never);
    await turns();
    assert.equal(isWarm, false);
    gate.resolve();
    await expected;
    assert.ok(await world.take(OWN));
  });

  test('a warm pool gives warm instances before older ones that are not', async () => {
    await using world = openPool(3);
    const gates = Array.from({ length: 3 }, () => Promise.withResolvers<void>());
    const keys: InstanceKey[] = [];
    world.maker.warmed = (key) => gates[keys.push(key) - 1]?.promise ?? Promise.resolve();
    await world.filled();
    gates[1]?.resolve();
    await turns();
    assert.equal(await world.take(OPEN), keys[1]);
    assert.equal(await world.take(OPEN), keys[0]);
    for (const { resolve } of gates) resolve();
  });

  test('a warm pool has fewer instances of a kind that takes several places each, and one of it as soon as it is requested', async () => {
    await using world = openPool(12);
    world.maker.places.set(OWN.templateVersionId, 5);
    await world.filled();
    for (const _ of [1, 2]) assert.equal(await world.take(OWN), undefined);
    await until('there is one', () => [...world.maker.living.values()].includes(OWN));
    assert.ok(world.maker.taken <= 12, `${world.maker.taken}`);
    assert.ok(await world.take(OWN));
  });

  test('a warm pool has an instance of a large kind although the others exceed their share by little', async () => {
    await using world = openPool(40);
    world.maker.places.set(OWN.templateVersionId, 5);
    for (let asked = 0; asked < 60; asked += 1) world.demand.note(OPEN);
    await world.filled();
    for (const _ of [1, 2]) await world.take(OWN);
    await until('there is one', () => [...world.maker.living.values()].includes(OWN));
    assert.ok(world.maker.taken <= 40, `${world.maker.taken}`);
  });

  test('a warm pool removes instances when they turn out to take more places than it has', async () => {
    await using world = openPool(12);
    for (let asked = 0; asked < 9; asked += 1) world.demand.note(OWN);
    await until('all are of that kind but the seed', () => world.pool.state().ready === 12);
    assert.ok([...world.maker.living.values()].filter((kind) => kind === OWN).length > 2);
    world.maker.places.set(OWN.templateVersionId, 5);
    await world.pool.refresh();
    await until('they fit', () => world.maker.taken <= 12);
    assert.ok([...world.maker.living.values()].includes(OWN));
  });

  test('a warm pool launches nothing while a requested launch runs', async () => {
    await using world = openPool(2);
    await world.filled();
    const held = world.pool.pauseRefill();
    await world.take(OPEN);
    await turns();
    assert.equal(world.maker.launched, 2);
    held[Symbol.dispose]();
    await world.filled();
  });

  test('a warm pool launches ahead after a while even if requested launches never end', async () => {
    await using world = openPool(2);
    await world.filled();
    using _ = world.pool.pauseRefill();
    await world.take(OPEN);
    await world.filled();
  });

  test('a warm pool hands out no stale or dead instance, and replaces it', async () => {
    await using world = openPool(2);
    await world.filled();
    const [stale, dead] = [...world.maker.living.keys()] as [InstanceKey, InstanceKey];
    world.maker.stale.add(stale);
    world.maker.living.delete(dead);
    assert.equal(await world.take(OPEN), undefined);
    await world.filled();
    assert.ok(!world.maker.living.has(stale));
  });

  test('a warm pool replaces stale instances without a request', async () => {
    await using world = openPool(2);
    await world.filled();
    for (const key of world.maker.living.keys()) world.maker.stale.add(key);
    await world.pool.refresh();
    await world.filled();
    assert.ok([...world.maker.living.keys()].every((key) => !world.maker.stale.has(key)));
  });

  test('a warm pool removes its instances when the host runs short of memory', async () => {
    await using world = openPool(3);
    await world.filled();
    world.maker.hasMemory = false;
    await world.pool.refresh();
    assert.equal(world.maker.living.size, 0);
    assert.equal(await world.take(OPEN), undefined);
    world.maker.hasMemory = true;
    await world.pool.refresh();
    await world.filled();
  });

  test('a warm pool gives the memory of its instances to sandboxes, and fills again', async () => {
    await using world = openPool(3);
    await world.filled();
    await world.pool.giveUp();
    assert.equal(world.maker.living.size, 0);
    assert.equal(world.pool.state().ready, 0);
    await world.pool.refresh();
    await world.filled();
  });

  test('pauses before it launches again after a failure', async () => {
    await using world = openPool(1);
    await world.filled();
    world.maker.fails = true;
    await world.take(OPEN);
    for (let turn = 0; turn < 50; turn += 1) {
      await world.take(OPEN);
      await setImmediate();
    }
    assert.ok(world.maker.mostUnderWay <= 1);
    assert.equal(world.pool.state().ready, 0);
    assert.equal(world.maker.launched, 1);
  });

  test('a warm pool leaves nothing when it closes during a launch', async () => {
    const world = openPool(4);
    await until('one is there', () => world.pool.state().ready > 0);
    world.maker.gate = new Promise(() => {});
    await world.pool.close();
    assert.equal(world.maker.living.size, 0);
    assert.equal(world.maker.underWay, 0);
  });

  test('a warm pool of size 0 does nothing at all', async () => {
    await using world = openPool(0);
    assert.equal(await world.take(OPEN), undefined);
    assert.deepEqual(world.pool.state(), { size: 0, ready: 0, hits: 0, misses: 0 });
    assert.equal(world.maker.launched, 0);
  });

  test('a warm pool ends a claim before it chooses what to launch next', async () => {
    await using world = openPool(2);
    await world.filled();
    await turns();
    world.maker.memoryChecks = 0;
    await world.pool.take(OPEN, new AbortController().signal, async () => {
      for (let moment = 0; moment < 20; moment += 1) await undefined;
    });
    assert.equal(world.maker.memoryChecks, 0);
    await world.filled();
    assert.ok(world.maker.memoryChecks > 0);
  });

  test('owns an instance until its claim has ended, and no longer', async () => {
    await using world = openPool(1);
    await world.filled();
    const [key = assert.fail()] = world.maker.living.keys();
    const claimed = Promise.withResolvers<void>();
    const taken = world.pool.take(OPEN, new AbortController().signal, () => claimed.promise);
    for (let moment = 0; moment < 20; moment += 1) {
      assert.ok(world.pool.owns(key), `not at moment ${moment}`);
      await undefined;
    }
    claimed.resolve();
    await taken;
    assert.equal(world.pool.owns(key), false);
  });
});
