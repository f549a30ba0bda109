/**
 * Compares hot runs of this version with those of another: `node bench/src/compare-hot-runs.ts FOLDER`, as root, four
 * minutes. FOLDER is a checkout of the other version in which `npm ci` has been run.
 *
 * Each round opens both services, which then run in turns. The one that was opened second is several percent faster,
 * also if both are the same version, so each is opened second in every other round. The ratio of all rounds is their
 * geometric mean, in which this advantage cancels out.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { figuresOf } from './statistics.ts';
import { Subject } from './subject.ts';
import { repeat, timed } from './timing.ts';

const ROUNDS = 8;
const WARM_UP = 3000;
const TURNS = 40;
const RUNS = 100;
/** Time for a service to launch the instances that follow a creation. */
const CALM_MS = 3000;

const [, , other] = process.argv;
if (!other) throw new Error('name the checkout to compare with: node bench/src/compare-hot-runs.ts FOLDER');

interface Version {
  readonly name: string;
  readonly checkout: string | undefined;
}
const versions: readonly Version[] = [
  { name: 'this version', checkout: undefined },
  { name: 'the other', checkout: other },
];

const ratios: number[] = [];
for (let round = 0; round < ROUNDS; round++) {
  const order = round % 2 === 0 ? versions : versions.toReversed();
  const p50s = await measure(order);
  const [mine = 0, theirs = 0] = versions.map(({ name }) => p50s.get(name));
  ratios.push(mine / theirs);
  const shown = [...p50s].map(([name, ms]) => `${name} ${ms.toFixed(3)} ms`).join(', ');
  console.log(`p50: ${shown}; ratio ${(mine / theirs).toFixed(3)}, ${order[1]?.name} opened second`);
}
// Two rounds, one in each order, give one estimate. Their spread shows how far to trust the mean.
const pairs = ratios.flatMap((ratio, index) =>
  index % 2 === 0 ? [Math.sqrt(ratio * (ratios[index + 1] ?? ratio))] : [],
);
const mean = Math.exp(ratios.reduce((sum, ratio) => sum + Math.log(ratio), 0) / ratios.length);
const range = `${Math.min(...pairs).toFixed(3)} to ${Math.max(...pairs).toFixed(3)}`;
console.log(`a hot run of this version takes ${mean.toFixed(3)} times as long (pairs of rounds: ${range})`);

/** Returns the p50 of a hot run of each version, in milliseconds. Opens them in the given order. */
async function measure(order: readonly Version[]): Promise<Map<string, number>> {
  const opened: { name: string; subject: Subject; run: () => Promise<unknown> }[] = [];
  try {
    for (const { name, checkout } of order) {
      const subject = await Subject.open({}, checkout);
      opened.push({ name, subject, run: await hotRunOf(subject) });
    }
    await delay(CALM_MS);
    const times = new Map(opened.map(({ name }) => [name, [] as number[]]));
    for (let turn = 0; turn < TURNS; turn++) {
      for (const { name, run } of turn % 2 === 0 ? opened : opened.toReversed()) {
        times.get(name)?.push(...(await repeat(RUNS, () => timed(run))));
      }
    }
    return new Map([...times].map(([name, all]) => [name, figuresOf(all).p50]));
  } finally {
    for (const { subject } of opened) await subject.close();
  }
}

async function hotRunOf(subject: Subject): Promise<() => Promise<unknown>> {
  const id = await subject.createReady();
  const { contextId } = await subject.run(id, '1+1');
  const run = () => subject.run(id, '1+1', { contextId });
  await delay(CALM_MS);
  await repeat(WARM_UP, () => timed(run));
  return run;
}
