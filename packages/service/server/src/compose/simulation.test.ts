/** Several servers in simulated time, in which anything may go wrong at any moment (`packages/service/server/testing/simulation`). */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { KEPT_SEEDS } from '../../testing/simulation/kept-seeds.ts';
import { runSimulation, Simulations } from '../../testing/simulation/run-simulation.ts';
import type { WorkloadName } from '../../testing/simulation/workloads/index.ts';

/** More by hand: `SEEDS=5000`, or `npm run simulate`. */
const SEEDS = Number(process.env.SEEDS ?? 300);
/** Seeds of each workload that seeds do not take in turns. */
const SEEDS_BY_NAME = Math.ceil(SEEDS / 8);

describe('several servers of one database, of which each may end, stand still or be cut off at any moment', () => {
  let simulations: Simulations;
  before(() => {
    simulations = new Simulations();
  });
  after(() => simulations[Symbol.asyncDispose]());

  it(`several servers of one database, of which each may end, stand still or be cut off at any moment keep every promise with ${SEEDS} seeds`, async () => {
    const half = SEEDS / 2;
    const halves = [0, half].map((from) => runSimulation('simulate.ts', '--seeds', half, '--from', from));
    for (const { code, output } of await Promise.all(halves)) {
      assert.equal(code, 0, output);
      assert.match(output, new RegExp(`${half} of ${half} seeds, .* no violation`));
    }
  });

  for (const workload of [
    'workspace runs',
    'template builds',
    'webhooks',
    'API keys',
    'artifacts',
  ] satisfies WorkloadName[]) {
    it(`several servers of one database, of which each may end, stand still or be cut off at any moment keep every promise of ${workload} with ${SEEDS_BY_NAME} seeds`, async () => {
      const { isKept, output } = await simulations.run('--seeds', SEEDS_BY_NAME, '--workload', workload);
      assert.equal(isKept, true, output);
    });
  }

  for (const { seed, workload, fault } of KEPT_SEEDS) {
    it(`several servers of one database, of which each may end, stand still or be cut off at any moment keep every promise with seed ${seed} of ${workload}, which found that ${fault}`, async () => {
      const { isKept, output } = await simulations.run('--seeds', 1, '--from', seed, '--workload', workload);
      assert.equal(isKept, true, output);
    });
  }

  it('several servers of one database, of which each may end, stand still or be cut off at any moment do the same again with the same seed in another process, and something else with another seed', async () => {
    const seeds = [1, 2, 3, 4, 5, 6];
    const [one, other] = await Promise.all([
      runSimulation('trace-digests.ts', ...seeds),
      runSimulation('trace-digests.ts', ...seeds),
    ]);
    assert.equal(one.output, other.output);
    const digests = one.output.trim().split('\n');
    assert.equal(digests.length, seeds.length);
    assert.equal(new Set(digests.map((line) => line.split(' ')[1])).size, seeds.length);
  });
});
