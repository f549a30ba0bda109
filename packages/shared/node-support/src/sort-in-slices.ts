import { TimeSlice } from './time-slice.ts';

/** Items that are sorted at once, which takes far less than a slice. */
const RUN_LENGTH = 256;

/** Returns the items in order, equal ones as they were. Gives the thread back, however many they are. */
export async function sortInSlices<T>(items: readonly T[], compare: (one: T, other: T) => number): Promise<T[]> {
  const timeSlice = new TimeSlice();
  let sorted = [...items];
  for (let start = 0; start < sorted.length; start += RUN_LENGTH) {
    const run = sorted.slice(start, start + RUN_LENGTH).sort(compare);
    for (const [at, item] of run.entries()) sorted[start + at] = item;
    await timeSlice.yieldIfOver();
  }
  for (let length = RUN_LENGTH; length < sorted.length; length *= 2) {
    const merged: T[] = [];
    for (let start = 0; start < sorted.length; start += 2 * length) {
      const [middle, end] = [start + length, Math.min(start + 2 * length, sorted.length)];
      for (let [left, right] = [start, middle]; merged.length < end; ) {
        const takesLeft =
          left < middle && left < end && (right >= end || compare(sorted[left] as T, sorted[right] as T) <= 0);
        merged.push(sorted[takesLeft ? left++ : right++] as T);
        if (merged.length % RUN_LENGTH === 0) await timeSlice.yieldIfOver();
      }
    }
    sorted = merged;
  }
  return sorted;
}
