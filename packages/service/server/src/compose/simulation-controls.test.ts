/** Tests that the simulation of several servers finds a fault when a mechanism of the product is switched off. */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import type { FaultKind } from '../../testing/simulation/faults.ts';
import type { Mechanism } from '../../testing/simulation/mechanisms.ts';
import { Simulations } from '../../testing/simulation/run-simulation.ts';
import type { WorkloadName } from '../../testing/simulation/workloads/index.ts';

interface Control {
  readonly without: Mechanism | readonly Mechanism[];
  readonly workload: WorkloadName;
  /** The kinds of faults that lead to a violation. Other kinds only make it rarer. */
  readonly faults: readonly FaultKind[];
  /** The first seed that is run: the last one that is known to violate an invariant. */
  readonly from: number;
  /** Words of the violation. */
  readonly violation: RegExp;
}

/** Mechanisms without which an invariant is violated. */
const CONTROLS: readonly Control[] = [
  { without: 'transactions', workload: 'code runs', faults: [], from: 130, violation: /sandboxes live/ },
  {
    without: 'failing of unheld claims',
    workload: 'code runs',
    faults: ['lost answer'],
    from: 6,
    violation: /in progress/,
  },
  {
    without: 'lease of a claim',
    workload: 'code runs',
    faults: ['pause'],
    from: 61,
    violation: /was answered with|twice|again/,
  },
  {
    without: 'answer of a revocation',
    workload: 'API keys',
    faults: [],
    from: 1,
    violation: /accepted after the answer/,
  },
  { without: 'claim of a row', workload: 'workspace runs', faults: [], from: 21, violation: /wrun_/ },
  { without: 'claim of a row', workload: 'template builds', faults: [], from: 24, violation: /bld_/ },
  { without: 'owner of a row', workload: 'workspace runs', faults: [], from: 9, violation: /wrun_/ },
  {
    without: 'owner of an answer',
    workload: 'code runs',
    faults: ['pause', 'power loss'],
    from: 207,
    violation: /was answered with/,
  },
  {
    without: 'generation of a stop',
    workload: 'code runs',
    faults: ['pause'],
    from: 4,
    violation: /live sandbox is stopped/,
  },
  // Each of the two alone keeps a request from being executed again.
  {
    without: ['fence', 'claim of a run'],
    workload: 'code runs',
    faults: ['pause', 'crash'],
    from: 91,
    violation: /executed (twice|again)/,
  },
  {
    without: 'builds before a removal',
    workload: 'template builds',
    faults: ['pause'],
    from: 11,
    violation: /has lost the version/,
  },
  {
    without: 'epoch of a move',
    workload: 'pauses',
    faults: ['lost answer'],
    from: 21,
    violation: /the instance .* of a live sandbox is stopped/,
  },
  {
    without: 'settling of a move',
    workload: 'pauses',
    faults: ['crash'],
    from: 7,
    violation: /is (pausing|waking|parking|dropping|booting)/,
  },
  { without: 'removal of a content', workload: 'artifacts', faults: ['pause'], from: 3, violation: /has no content/ },
];
/** Seeds in which it is found at the latest. */
const FOUND_IN = 400;

describe('the simulation', () => {
  let simulations: Simulations;
  before(() => {
    simulations = new Simulations();
  });
  after(() => simulations[Symbol.asyncDispose]());

  for (const { without, workload, faults, from: first, violation } of CONTROLS) {
    const names = [without].flat();
    it(`the simulation finds what is wrong without the ${names.join(' and the ')}, in ${workload}, and how to repeat it with the fewest faults`, async () => {
      const simulate = (seeds: number, from: string | number, ...more: string[]) =>
        simulations.run(
          ...['--seeds', seeds, '--from', from, '--workload', workload],
          ...names.map((name) => `--without=${name}`),
          ...(faults.length > 0 ? faults.map((kind) => `--faults=${kind}`) : ['--only=']),
          ...more,
        );
      const { isKept, output } = await simulate(FOUND_IN, first);
      assert.equal(isKept, false, output);
      assert.match(output, violation);
      const [, from = '', only = ''] = /--from (\d+) .*--only=([\d,]*)/.exec(output) ?? [];
      const repeated = await simulate(1, from, `--only=${only}`);
      assert.equal(repeated.isKept, false, repeated.output);
      assert.match(repeated.output, violation);
    });
  }
});
