import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { it } from 'node:test';
import { type Results, readResults } from '../results.ts';
import { figuresOf } from '../statistics.ts';
import { withSummary } from './summary.ts';

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

it('the table of what has an aim replaces the one between the marks, and nothing else', () => {
  const made = withSummary('before\n<!-- bench -->\nold\n<!-- /bench -->\nafter', RESULTS);
  assert.match(made, /^before\n<!-- bench -->\nOn 2 cores, Linux 6; medians\.\n/);
  assert.match(made, /\n\| create → ready \| 7 ms \| +\| +\| p50 ≤ 8 ms \| met \|\n<!-- \/bench -->\nafter$/);
  assert.doesNotMatch(made, /old|without an aim/);
  assert.equal(withSummary('no marks', RESULTS), 'no marks');
});

it('the README shows the figures that are kept', (t) => {
  const results = readResults(new URL('../../results.json', import.meta.url).pathname);
  if (!results) return t.skip('no figures are kept yet: npm run bench');
  const readme = readFileSync(new URL('../../../README.md', import.meta.url), 'utf8');
  assert.equal(withSummary(readme, results), readme);
});
