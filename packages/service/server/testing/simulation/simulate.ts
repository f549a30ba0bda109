/** `npm run simulate -- --seeds 1000 --from 0`: runs many seeds, and explains the first one that violates an invariant. */
import { parseArgs } from 'node:util';
import { MECHANISMS, type Mechanism } from './mechanisms.ts';
import { prepareImage } from './prepare-image.ts';
import { withFewestFaults } from './shortest-faults.ts';
import { type SeedResult, simulate } from './simulation.ts';
import { isWorkload, WORKLOADS } from './workloads/index.ts';

const PROGRESS_SEEDS = 500;

const { values } = parseArgs({
  options: {
    seeds: { type: 'string', default: '1000' },
    from: { type: 'string', default: '0' },
    only: { type: 'string' },
    workload: { type: 'string' },
    without: { type: 'string', multiple: true, default: [] },
    trace: { type: 'boolean', default: false },
  },
});
const unknown = values.without.find((name) => !(MECHANISMS as readonly string[]).includes(name));
if (unknown !== undefined) throw new Error(`--without takes one of: ${MECHANISMS.join(', ')}`);
// Checked above.
const without = values.without as Mechanism[];
const [count, from] = [Number(values.seeds), Number(values.from)];
if (!(count > 0 && from >= 0)) throw new Error('--seeds and --from take numbers');
const only = values.only === undefined ? undefined : new Set(values.only.split(',').filter(Boolean).map(Number));
const { workload } = values;
if (workload !== undefined && !isWorkload(workload)) {
  throw new Error(`--workload takes one of: ${Object.keys(WORKLOADS).join(', ')}`);
}
const trace = values.trace ? { trace: print } : {};
const image = await prepareImage();
const beganAt = performance.now();
let simulatedMs = 0;
for (let seed = from; seed < from + count; seed += 1) {
  const result = await simulate({ seed, image, only, without, workload, ...trace });
  simulatedMs += result.simulatedMs;
  if (result.violation !== undefined) {
    explain(await withFewestFaults({ seed, image, only, without, workload }, result));
    process.exitCode = 1;
    break;
  }
  const done = seed - from + 1;
  if (done % PROGRESS_SEEDS === 0 || done === count) {
    const seconds = ((performance.now() - beganAt) / 1000).toFixed(0);
    print(
      `${done} of ${count} seeds, ${(simulatedMs / 3_600_000).toFixed(1)} simulated hours, ${seconds} s: no violation`,
    );
  }
}

function explain({ seed, workload: name, violation, faults, digest, events }: SeedResult): void {
  print(`seed ${seed}, ${name}: ${violation}`);
  for (const { number, kind, where } of faults) print(`  fault ${number}: ${kind}, ${where}`);
  print(`  ${events} events, trace ${digest}; to see them:`);
  const numbers = faults.map(({ number }) => number).join(',');
  const controls = without.map((name) => ` --without="${name}"`).join('');
  print(`  npm run simulate -- --seeds 1 --from ${seed} --workload="${name}" --only=${numbers}${controls} --trace`);
}

function print(line: string): void {
  process.stdout.write(`${line}\n`);
}
