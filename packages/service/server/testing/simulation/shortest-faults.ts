import { type SeedOptions, type SeedResult, simulate } from './simulation.ts';

/**
 * Leaves out faults of a violation as long as there is still a violation: halves of them first, then smaller parts, and
 * each remaining fault at the end. Returns the last run with a violation: it has no fault that it does not need.
 */
export async function withFewestFaults(options: SeedOptions, violated: SeedResult): Promise<SeedResult> {
  const { trace: _, ...silent } = options;
  let shortest = violated;
  for (let size = Math.ceil(violated.faults.length / 2); size >= 1; size = size === 1 ? 0 : Math.ceil(size / 2)) {
    for (let end = shortest.faults.length; end > 0; end -= size) {
      const numbers = shortest.faults.map(({ number }) => number);
      numbers.splice(Math.max(0, end - size), Math.min(size, end));
      const result = await simulate({ ...silent, only: new Set(numbers) });
      if (result.violation !== undefined) shortest = result;
    }
  }
  return shortest;
}
