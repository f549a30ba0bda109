import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { it } from 'node:test';
import { type Results, readResults } from '../results.ts';
import { figuresOf } from '../statistics.ts';
import { HEADLINES, withHeadlines, withTargets } from './summary.ts';

const RESULTS: Results = {
  machine: { machine: '2 cores', kernel: 'Linux 6' },
  outcomes: [
    {
      ...{ name: 'create', title: 'creation', at: '', load: '0', quick: false },
      rows: [
        { what: 'create → ready', unit: 'ms', subject: figuresOf([7]), targets: [{ atMost: 8 }] },
        { what: 'without an aim', unit: 'ms', subject: figuresOf([7]) },
      ],
    },
  ],
};

const RESULTS_FILE = new URL('../../results.json', import.meta.url).pathname;

it('the table of rows with a target replaces the one between the marks, and nothing else', () => {
  const made = withTargets('before\n<!-- bench -->\nold\n<!-- /bench -->\nafter', RESULTS);
  assert.match(made, /^before\n<!-- bench -->\nOn 2 cores, Linux 6; medians\.\n/);
  assert.match(made, /\n\| create → ready \| 7 ms \| +\| p50 ≤ 8 ms \| met \|\n<!-- \/bench -->\nafter$/);
  assert.doesNotMatch(made, /old|without an aim/);
  assert.equal(withTargets('no marks', RESULTS), 'no marks');
});

for (const [file, withFigures] of [
  ['README.md', withHeadlines],
  ['docs/performance.md', withTargets],
] as const) {
  it(`${file} shows the figures that are kept`, (t) => {
    const results = readResults(RESULTS_FILE);
    if (!results) return t.skip('no figures are kept yet: npm run bench');
    const text = readFileSync(new URL(`../../../${file}`, import.meta.url), 'utf8');
    assert.equal(withFigures(text, results), text);
  });
}

it('the README names at most four figures, each of which is kept', (t) => {
  const results = readResults(RESULTS_FILE);
  if (!results) return t.skip('no figures are kept yet: npm run bench');
  const names = results.outcomes.flatMap(({ rows }) => rows.map(({ what }) => what));
  assert.ok(Object.keys(HEADLINES).length <= 4);
  assert.deepEqual(
    Object.keys(HEADLINES).filter((what) => !names.includes(what)),
    [],
  );
});
