/** Tests that the simulation of several servers finds a fault when a mechanism of the product is switched off. */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import type { Mechanism } from '../../testing/simulation/mechanisms.ts';
import { Simulations } from '../../testing/simulation/run-simulation.ts';
import type { WorkloadName } from '../../testing/simulation/workloads/index.ts';

/** Mechanisms without which a violation is found, from which seed on it is looked for, and a word of it. */
const CONTROLS: readonly {
  without: Mechanism | readonly Mechanism[];
  workload: WorkloadName;
  from: number;
  violation: RegExp;
}[] = [
  { without: 'transactions', workload: 'code runs', from: 117, violation: /sandboxes live/ },
  { without: 'failing of unheld claims', workload: 'code runs', from: 12, violation: /in progress/ },
  { without: 'lease of a claim', workload: 'code runs', from: 688, violation: /was answered with|twice|again/ },
  { without: 'answer of a revocation', workload: 'API keys', from: 1, violation: /accepted after the answer/ },
  { without: 'claim of a row', workload: 'workspace runs', from: 1, violation: /wrun_/ },
  { without: 'claim of a row', workload: 'template builds', from: 23, violation: /bld_/ },
  { without: 'owner of a row', workload: 'workspace runs', from: 1, violation: /wrun_/ },
  { without: 'owner of an answer', workload: 'code runs', from: 1_483, violation: /was answered with/ },
  { without: 'generation of a stop', workload: 'code runs', from: 5_039, violation: /live sandbox is stopped/ },
  // Each of the two alone keeps a request from being executed again.
  { without: ['fence', 'claim of a run'], workload: 'code runs', from: 221, violation: /executed (twice|again)/ },
  { without: 'builds before a removal', workload: 'template builds', from: 32, violation: /has lost the version/ },
  { without: 'epoch of a move', workload: 'pauses', from: 150, violation: /recorded as paused, and executes/ },
  { without: 'settling of a move', workload: 'pauses', from: 100, violation: /is (pausing|waking)/ },
  { without: 'removal of a content', workload: 'artifacts', from: 323, violation: /has no content/ },
];
/** Seeds in which it is found at the latest. */
const FOUND_IN = 400;

describe('the simulation', () => {
  let simulations: Simulations;
  before(() => {
    simulations = new Simulations();
  });
  after(() => simulations[Symbol.asyncDispose]());

  for (const { without, workload, from: first, violation } of CONTROLS) {
    const names = [without].flat();
    it(`the simulation finds what is wrong without the ${names.join(' and the ')}, in ${workload}, and how to repeat it with the fewest faults`, async () => {
      const simulate = (seeds: number, from: string | number, ...more: string[]) =>
        simulations.run(
          ...['--seeds', seeds, '--from', from, '--workload', workload],
          ...names.map((name) => `--without=${name}`),
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
