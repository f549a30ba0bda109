import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { eventually } from '@cloche/testkit/eventually';
import { type Candidate, MemoryGuard } from './memory-guard.ts';

const LIMIT_BYTES = 1000;

/** A machine whose used memory is that of its groups, plus shared memory that ended groups have left. */
class Machine {
  readonly groups = new Map<number, Candidate>();
  readonly killed: number[] = [];
  sharedBytes = 0;
  looks = 0;
  releases = 0;
  spareBytes = 0;
  /** Whether killed groups end at once. */
  endsAtOnce = true;

  add(group: number, residentBytes: number, adjustment = 0): void {
    this.groups.set(group, { group, residentBytes, adjustment });
  }

  usedBytes(): number {
    this.looks += 1;
    return [...this.groups.values()].reduce(
      (sum, { residentBytes }) => sum + residentBytes,
      this.sharedBytes + this.spareBytes,
    );
  }

  release(): boolean {
    const released = this.spareBytes > 0;
    this.spareBytes = 0;
    return released;
  }

  candidates(): Candidate[] {
    return [...this.groups.values()];
  }

  kill(group: number): void {
    this.killed.push(group);
    if (this.endsAtOnce) this.groups.delete(group);
  }

  isAlive(group: number): boolean {
    return this.groups.has(group);
  }

  async releaseShared(): Promise<boolean> {
    // The first call is too early: the killed process still holds the memory.
    this.releases += 1;
    if (this.releases > 1) this.sharedBytes = 0;
    return this.sharedBytes > 0;
  }
}

describe('a memory guard', () => {
  test('says that the host may have killed only after it was late', async (t) => {
    let now = 0;
    t.mock.method(performance, 'now', () => now);
    const guard = new MemoryGuard(LIMIT_BYTES, new Machine());
    assert.equal(guard.hostMayHaveKilled(), false);
    const lookAfter = (ms: number) => {
      now += ms;
      guard.look();
      return guard.hostMayHaveKilled();
    };
    const soon = 50;
    const late = 500;
    assert.deepEqual([soon, soon, late, soon, 2 * soon].map(lookAfter), [false, false, true, true, true]);
    for (let waited = 0; waited < 1000; waited += soon) lookAfter(soon);
    assert.equal(guard.hostMayHaveKilled(), false);
    now += late;
    assert.equal(guard.hostMayHaveKilled(), true);
  });

  test('a memory guard says that the host may have killed for a second after the memory was nearly full', (t) => {
    let now = 0;
    t.mock.method(performance, 'now', () => now);
    const machine = new Machine();
    const guard = new MemoryGuard(LIMIT_BYTES, machine);
    const lookWith = (usedBytes: number, ms: number) => {
      now += ms;
      machine.add(1, usedBytes);
      guard.look();
      return guard.hostMayHaveKilled();
    };
    const outcomes = [
      lookWith(LIMIT_BYTES / 2, 10),
      lookWith(0.7 * LIMIT_BYTES, 10),
      lookWith(0.8 * LIMIT_BYTES, 10),
      lookWith(0, 10),
    ];
    assert.deepEqual(outcomes, [false, false, true, true]);
    for (let waited = 0; waited < 1000; waited += 50) lookWith(0, 50);
    assert.equal(guard.hostMayHaveKilled(), false);
  });

  test('a memory guard kills nothing while there is enough', () => {
    const machine = new Machine();
    machine.add(1, LIMIT_BYTES);
    new MemoryGuard(LIMIT_BYTES, machine).look();
    assert.deepEqual(machine.killed, []);
  });

  test('a memory guard kills what has most, counting what is to go first as if it had more', () => {
    const machine = new Machine();
    machine.add(1, 600);
    machine.add(2, 500, 300);
    machine.add(3, 100, 300);
    const guard = new MemoryGuard(LIMIT_BYTES, machine);
    guard.look();
    assert.deepEqual(machine.killed, [2]);
    assert.equal(guard.kills, 1);
  });

  test('a memory guard kills nothing as long as there is what can be spared', () => {
    const machine = new Machine();
    machine.spareBytes = 200;
    machine.add(1, 900);
    const guard = new MemoryGuard(LIMIT_BYTES, machine);
    guard.look();
    guard.look();
    assert.deepEqual([machine.killed, machine.spareBytes, guard.kills], [[], 0, 0]);
    machine.add(2, 200);
    guard.look();
    assert.deepEqual(machine.killed, [1]);
  });

  test('a memory guard kills no other before the first had time to end', async () => {
    const machine = new Machine();
    machine.endsAtOnce = false;
    machine.add(1, 900);
    machine.add(2, 800);
    const guard = new MemoryGuard(LIMIT_BYTES, machine);
    guard.look();
    guard.look();
    assert.deepEqual(machine.killed, [1]);
    machine.groups.delete(1);
    machine.add(3, 900);
    const kills = () => {
      guard.look();
      return machine.killed.length > 1;
    };
    await eventually(kills, { because: 'the guard kills again' });
    assert.deepEqual(machine.killed, [1, 3]);
  });

  test('a memory guard takes shared memory away that outlives its process, before it kills another', async () => {
    const machine = new Machine();
    machine.sharedBytes = LIMIT_BYTES;
    machine.add(1, 200, 1000);
    machine.add(2, 50);
    const guard = new MemoryGuard(LIMIT_BYTES, machine);
    guard.look();
    const releases = () => {
      guard.look();
      return machine.sharedBytes === 0;
    };
    await eventually(releases, { because: 'the shared memory is released' });
    assert.deepEqual(machine.killed, [1]);
  });

  test('a memory guard takes it away also where there is enough for now, which the next process would need', async () => {
    const machine = new Machine();
    machine.sharedBytes = LIMIT_BYTES - 10;
    machine.add(1, 200);
    new MemoryGuard(LIMIT_BYTES, machine).look();
    await eventually(() => machine.sharedBytes === 0, { because: 'the shared memory is released' });
  });

  test('a memory guard looks more often the less there is left', async () => {
    const isOver = new AbortController();
    const watch = (usedBytes: number) => {
      const machine = new Machine();
      machine.add(1, usedBytes);
      return { machine, watching: new MemoryGuard(2 ** 30, machine).watch(isOver.signal) };
    };
    // Both run at the same time, so that a busy machine delays both.
    const [idle, short] = [watch(0), watch(2 ** 30 - 1)];
    const before = idle.machine.looks;
    await eventually(() => idle.machine.looks !== before, { because: 'the guard looks again' });
    const [looks, more] = [idle.machine.looks, short.machine.looks];
    isOver.abort();
    await Promise.all([idle.watching, short.watching]);
    assert.ok(more > 2 * looks, `${more} looks where memory is short, ${looks} where it is not`);
  });
});
