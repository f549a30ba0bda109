import assert from 'node:assert/strict';
import { it } from 'node:test';
import { Overlaps } from './overlaps.ts';

it('a request overlaps one for the same name that has not ended, also if that fails', async () => {
  const overlaps = new Overlaps();
  const first = Promise.withResolvers<void>();
  const told: Record<string, boolean> = {};
  const note = (as: string) => async (isOverlapping: boolean) => void Object.assign(told, { [as]: isOverlapping });
  const failed = overlaps.during('a', async (isOverlapping) => {
    await note('first')(isOverlapping);
    await first.promise;
  });
  await overlaps.during('a', note('second'));
  await overlaps.during('b', note('of another name'));
  first.reject(new Error('failed'));
  await assert.rejects(failed, /failed/);
  await overlaps.during('a', note('later'));
  assert.deepEqual(told, { first: false, second: true, 'of another name': false, later: false });
});
