import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { InstanceRecords } from '../instance/instance-records.ts';
import { DiskReservations } from './disk-reservations.ts';

const GIBIBYTE = 1024 ** 3;

interface Known {
  status: string;
  diskBytes: number;
}

function promises(all: readonly Known[], options: { overcommit?: number; free?: number; reserveBytes?: number } = {}) {
  const { overcommit = 2, free = 12, ...rest } = options;
  const records = {
    keys: () => all.map((_, index) => `${index}`),
    read: (key: string) => all[Number(key)],
  } as unknown as InstanceRecords;
  const read = (() => ({ blocks: 100, bavail: free, bsize: GIBIBYTE })) as never;
  return new DiskReservations({ folder: '/data', records, overcommit, read, ...rest });
}

const NO_CAPACITY = { code: 'no_capacity' };
const live = (gibibytes: number) => ({ status: 'live', diskBytes: gibibytes * GIBIBYTE });
const pooled = (gibibytes: number) => ({ status: 'pooled', diskBytes: gibibytes * GIBIBYTE });

test('disks are reserved up to a multiple of the free space above the reserve', () => {
  // The reserve is 2 GiB of the 12.
  promises([live(10)]).assertCapacity(10 * GIBIBYTE, { isPooled: false });
  assert.throws(() => promises([live(10)]).assertCapacity(10 * GIBIBYTE + 1, { isPooled: false }), NO_CAPACITY);
  assert.throws(() => promises([], { free: 2 }).assertCapacity(1, { isPooled: false }), NO_CAPACITY);
  promises([], { free: 2, reserveBytes: 0 }).assertCapacity(4 * GIBIBYTE, { isPooled: false });
});

test('disks of unclaimed instances do not limit those of sandboxes', () => {
  const all = [live(5), pooled(15), { status: 'launching', diskBytes: 5 * GIBIBYTE }];
  promises(all).assertCapacity(10 * GIBIBYTE, { isPooled: false });
  assert.throws(() => promises(all).assertCapacity(1, { isPooled: true }), NO_CAPACITY);
});

test('the disks of instances that are being removed do not count', () => {
  promises([{ status: 'ending', diskBytes: GIBIBYTE }]).assertCapacity(20 * GIBIBYTE, { isPooled: false });
});
