/**
 * `npm run simulate -- --seeds 1000 --from 0`: runs many seeds, and explains the first one that violates an invariant.
 * With `--lines`, reads lists of arguments, each a line of JSON, and answers each with a line of JSON.
 */
import { createInterface } from 'node:readline';
import { parseArgs } from 'node:util';
import { FAULT_KINDS, type FaultKind } from './faults.ts';
import { MECHANISMS, type Mechanism } from './mechanisms.ts';
import { prepareImage } from './prepare-image.ts';
import { runSeeds, type SeedsOptions } from './run-seeds.ts';
import { isWorkload, WORKLOADS } from './workloads/index.ts';

const image = await prepareImage();
const print = (line: string) => process.stdout.write(`${line}\n`);
const given = process.argv.slice(2);
if (given[0] === '--lines') {
  for await (const line of createInterface({ input: process.stdin })) {
    const lines: string[] = [];
    const isKept = await runSeeds(optionsOf(JSON.parse(line)), (each) => lines.push(each));
    print(JSON.stringify({ isKept, output: lines.join('\n') }));
  }
} else if (!(await runSeeds(optionsOf(given), print))) process.exitCode = 1;

function optionsOf(args: string[]): SeedsOptions {
  const { values } = parseArgs({
    args,
    options: {
      seeds: { type: 'string', default: '1000' },
      from: { type: 'string', default: '0' },
      only: { type: 'string' },
      workload: { type: 'string' },
      without: { type: 'string', multiple: true, default: [] },
      faults: { type: 'string', multiple: true },
      trace: { type: 'boolean', default: false },
    },
  });
  const unknown = values.without.find((name) => !(MECHANISMS as readonly string[]).includes(name));
  if (unknown !== undefined) throw new Error(`--without takes one of: ${MECHANISMS.join(', ')}`);
  const kinds: readonly string[] = FAULT_KINDS;
  if (values.faults?.some((kind) => !kinds.includes(kind))) {
    throw new Error(`--faults takes one of: ${kinds.join(', ')}`);
  }
  // Checked above.
  const without = values.without as Mechanism[];
  const faults = values.faults as FaultKind[] | undefined;
  const [count, from] = [Number(values.seeds), Number(values.from)];
  if (!(count > 0 && from >= 0)) throw new Error('--seeds and --from take numbers');
  const only = values.only === undefined ? undefined : new Set(values.only.split(',').filter(Boolean).map(Number));
  const { workload } = values;
  if (workload !== undefined && !isWorkload(workload)) {
    throw new Error(`--workload takes one of: ${Object.keys(WORKLOADS).join(', ')}`);
  }
  return { from, count, image, only, without, kinds: faults, workload, ...(values.trace && { trace: print }) };
}
