import { type SeedOptions, type SeedResult, simulate } from './simulation.ts';

/**
 * Leaves out one fault of a violation after the other, as long as there is still a violation. Returns the last run that has
 * one: it has no fault that it does not need.
 */
export async function withFewestFaults(options: SeedOptions, violated: SeedResult): Promise<SeedResult> {
  let shortest = violated;
  for (let index = violated.faults.length - 1; index >= 0; index -= 1) {
    const left = shortest.faults
      .map(({ number }) => number)
      .filter((number) => number !== violated.faults[index]?.number);
    const { trace: _, ...silent } = options;
    const result = await simulate({ ...silent, only: new Set(left) });
    if (result.violation !== undefined) shortest = result;
  }
  return shortest;
}
