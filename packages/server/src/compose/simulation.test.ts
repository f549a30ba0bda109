/** Several servers in simulated time, in which anything may go wrong at any moment (`packages/server/testing/simulation`). */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { text } from 'node:stream/consumers';
import { describe, it } from 'node:test';
import { fileURLToPath } from 'node:url';
import { KEPT_SEEDS } from '../../testing/simulation/kept-seeds.ts';
import type { Mechanism } from '../../testing/simulation/mechanisms.ts';

const SEEDS = 1_000;

/** Runs a program of the simulation in a process of its own: beside the hooks of a test runner, promises take far longer. */
async function run(program: string, ...given: readonly (string | number)[]): Promise<{ code: number; output: string }> {
  const path = fileURLToPath(new URL(`../../testing/simulation/${program}`, import.meta.url));
  const child = spawn(process.execPath, [path, ...given.map(String)], { stdio: ['ignore', 'pipe', 'inherit'] });
  const [output, [code]] = await Promise.all([text(child.stdout), once(child, 'close')]);
  return { code, output };
}

describe('several servers of one database, of which each may end, stand still or be cut off at any moment', () => {
  it(`keep every promise with ${SEEDS} seeds`, async () => {
    const { code, output } = await run('simulate.ts', '--seeds', SEEDS);
    assert.equal(code, 0, output);
    assert.match(output, /1000 of 1000 seeds, .* no violation/);
  });

  for (const { seed, fault } of KEPT_SEEDS) {
    it(`keep every promise with seed ${seed}, which found that ${fault}`, async () => {
      const { code, output } = await run('simulate.ts', '--seeds', 1, '--from', seed);
      assert.equal(code, 0, output);
    });
  }

  it('do the same again with the same seed in another process, and something else with another seed', async () => {
    const seeds = [1, 2, 3, 4, 5, 6];
    const [one, other] = await Promise.all([run('trace-digests.ts', ...seeds), run('trace-digests.ts', ...seeds)]);
    assert.equal(one.output, other.output);
    const digests = one.output.trim().split('\n');
    assert.equal(digests.length, seeds.length);
    assert.equal(new Set(digests.map((line) => line.split(' ')[1])).size, seeds.length);
  });
});

/** Mechanisms without which a violation is found, and a word of it. */
const CONTROLS: readonly { without: Mechanism; violation: RegExp }[] = [
  { without: 'transactions', violation: /sandboxes live/ },
  { without: 'failing of unheld claims', violation: /in progress/ },
  { without: 'lease of a claim', violation: /was answered with|twice|again/ },
];
/** Seeds in which it is found at the latest. */
const FOUND_IN = 400;

describe('the simulation', () => {
  for (const { without, violation } of CONTROLS) {
    it(`finds what is wrong without the ${without}, and how to repeat it with the fewest faults`, async () => {
      const { code, output } = await run('simulate.ts', '--seeds', FOUND_IN, '--without', without);
      assert.equal(code, 1, output);
      assert.match(output, violation);
      const [, from = '', only = ''] = /--from (\d+) --only=([\d,]*)/.exec(output) ?? [];
      const repeated = await run('simulate.ts', '--seeds', 1, '--from', from, `--only=${only}`, '--without', without);
      assert.equal(repeated.code, 1, repeated.output);
      assert.match(repeated.output, violation);
    });
  }
});
