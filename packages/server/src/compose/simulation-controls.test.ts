/** Tests that the simulation of several servers finds a fault when a mechanism of the product is switched off. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { Mechanism } from '../../testing/simulation/mechanisms.ts';
import { runSimulation } from '../../testing/simulation/run-simulation.ts';

/** Mechanisms without which a violation is found, from which seed on it is looked for, and a word of it. */
const CONTROLS: readonly { without: Mechanism; from: number; violation: RegExp }[] = [
  { without: 'transactions', from: 110, violation: /sandboxes live/ },
  { without: 'failing of unheld claims', from: 0, violation: /in progress/ },
  { without: 'lease of a claim', from: 70, violation: /was answered with|twice|again/ },
];
/** Seeds in which it is found at the latest. */
const FOUND_IN = 400;

describe('the simulation', () => {
  for (const { without, from: first, violation } of CONTROLS) {
    it(`finds what is wrong without the ${without}, and how to repeat it with the fewest faults`, async () => {
      const { code, output } = await runSimulation(
        'simulate.ts',
        '--seeds',
        FOUND_IN,
        '--from',
        first,
        '--without',
        without,
      );
      assert.equal(code, 1, output);
      assert.match(output, violation);
      const [, from = '', only = ''] = /--from (\d+) --only=([\d,]*)/.exec(output) ?? [];
      const repeated = await runSimulation(
        'simulate.ts',
        '--seeds',
        1,
        '--from',
        from,
        `--only=${only}`,
        '--without',
        without,
      );
      assert.equal(repeated.code, 1, repeated.output);
      assert.match(repeated.output, violation);
    });
  }
});
