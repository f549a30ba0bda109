import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { MemoryRoom, type MemoryRoomOptions } from './memory-room.ts';

const MIB = 1024 * 1024;
const NO_CAPACITY = { name: 'HostdError', code: 'no_capacity' };

/** A machine of 1000 MiB, of which 100 stay free. */
function roomOf(availableMb: number, options: Partial<MemoryRoomOptions> = {}) {
  const machine = { totalBytes: 1000 * MIB, availableBytes: availableMb * MIB };
  let asked = 0;
  const room = new MemoryRoom({
    keepBytes: 100 * MIB,
    promisedBytes: () => 0,
    makeRoom: async () => {
      asked += 1;
    },
    read: () => machine,
    ...options,
  });
  return { room, machine, asked: () => asked };
}

describe('room in memory', () => {
  const CASES: readonly [title: string, availableMb: number, neededMb: number, fits: boolean][] = [
    ['plenty', 900, 24, true],
    ['to the byte', 124, 24, true],
    ['one less than is needed', 123, 24, false],
    ['nothing needed, at the bound', 100, 0, true],
    ['nothing needed, below the bound', 99, 0, false],
    ['nothing available', 0, 24, false],
    ['more needed than the machine has', 1000, 1001, false],
  ];
  for (const [title, availableMb, neededMb, fits] of CASES) {
    it(`room in memory is what stays above the bound: ${title}`, async () => {
      const { room, asked } = roomOf(availableMb);
      const taking = room.take(neededMb * MIB);
      if (fits) await taking;
      else await assert.rejects(taking, { ...NO_CAPACITY, message: /CLOCHE_MEMORY_KEEP_MB/ });
      assert.equal(asked(), fits ? 0 : 1);
    });
  }

  it('room in memory is refused only after all that can be freed was freed', async () => {
    const { room, machine } = roomOf(110, {
      makeRoom: async (isEnough) => {
        while (!isEnough() && machine.availableBytes < 130 * MIB) machine.availableBytes += MIB;
      },
    });
    await room.take(24 * MIB);
    assert.equal(machine.availableBytes, 124 * MIB, 'no more is freed than is needed');
    await assert.rejects(room.take(24 * MIB), NO_CAPACITY);
    assert.equal(machine.availableBytes, 130 * MIB);
  });

  it('room in memory is not given twice to launches at the same time', async () => {
    const { room } = roomOf(150);
    const first = await room.take(24 * MIB);
    const second = await room.take(24 * MIB);
    await assert.rejects(room.take(24 * MIB), NO_CAPACITY);
    first[Symbol.dispose]();
    using _third = await room.take(24 * MIB);
    second[Symbol.dispose]();
  });

  it('limits of sandboxes may sum to any number of times the memory, unless an operator bounds them', async () => {
    const { room } = roomOf(900, { promisedBytes: () => assert.fail('nothing is counted without a bound') });
    for (let times = 0; times < 100; times += 1) room.promise(1000 * MIB);
  });

  it('limits of sandboxes sum to at most the bound, with those of launches under way', async () => {
    let recorded = 1200 * MIB;
    const { room } = roomOf(900, { overcommit: 2, promisedBytes: () => recorded });
    const launch = room.promise(500 * MIB);
    assert.throws(() => room.promise(301 * MIB), { ...NO_CAPACITY, message: /2001 MiB.* 2000 MiB .*OVERCOMMIT is 2/ });
    using _exact = room.promise(300 * MIB);
    recorded += 500 * MIB;
    launch[Symbol.dispose]();
    assert.throws(() => room.promise(1), NO_CAPACITY);
    recorded = 0;
    room.promise(1700 * MIB);
  });
});
