/** Runs many seeds one after the other, and explains the first one that violates an invariant. */
import type { Mechanism } from './mechanisms.ts';
import { withFewestFaults } from './shortest-faults.ts';
import { type SeedOptions, type SeedResult, simulate } from './simulation.ts';

const PROGRESS_SEEDS = 500;

export interface SeedsOptions extends Omit<SeedOptions, 'seed' | 'without'> {
  readonly from: number;
  readonly count: number;
  readonly without: readonly Mechanism[];
}

/** Returns whether all seeds keep every invariant. */
export async function runSeeds(
  { from, count, ...options }: SeedsOptions,
  print: (line: string) => void,
): Promise<boolean> {
  const beganAt = performance.now();
  let simulatedMs = 0;
  for (let seed = from; seed < from + count; seed += 1) {
    const result = await simulate({ seed, ...options });
    simulatedMs += result.simulatedMs;
    if (result.violation !== undefined) {
      for (const line of explain(await withFewestFaults({ seed, ...options }, result), options)) print(line);
      return false;
    }
    const done = seed - from + 1;
    if (done % PROGRESS_SEEDS === 0 || done === count) {
      const seconds = ((performance.now() - beganAt) / 1000).toFixed(0);
      print(
        `${done} of ${count} seeds, ${(simulatedMs / 3_600_000).toFixed(1)} simulated hours, ${seconds} s: no violation`,
      );
    }
  }
  return true;
}

function explain(
  { seed, workload, violation, faults, digest, events }: SeedResult,
  { without, kinds = [] }: Pick<SeedsOptions, 'without' | 'kinds'>,
): string[] {
  const numbers = faults.map(({ number }) => number).join(',');
  const controls = without.map((name) => ` --without="${name}"`).join('');
  const limits = kinds.map((kind) => ` --faults="${kind}"`).join('');
  return [
    `seed ${seed}, ${workload}: ${violation}`,
    ...faults.map(({ number, kind, where }) => `  fault ${number}: ${kind}, ${where}`),
    `  ${events} events, trace ${digest}; to see them:`,
    `  npm run simulate -- --seeds 1 --from ${seed} --workload="${workload}" --only=${numbers}${controls}${limits} --trace`,
  ];
}
