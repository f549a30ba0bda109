import assert from 'node:assert/strict';
import { it } from 'node:test';
import { coverageTable, type FileCoverage } from './coverage-reporter.ts';

function file(path: string, covered: number, total: number): FileCoverage {
  return {
    path,
    totalLineCount: total,
    coveredLineCount: covered,
    totalBranchCount: 0,
    coveredBranchCount: 0,
    totalFunctionCount: 2,
    coveredFunctionCount: 1,
  };
}

it('coverage is summed for each package and for all', () => {
  const table = coverageTable([
    file('packages/service/server/src/a.ts', 10, 10),
    file('packages/guest/agent/src/b.ts', 1, 4),
    file('packages/guest/agent/src/c/d.ts', 3, 4),
  ]);
  assert.deepEqual(
    table.split('\n').map((line) => line.trim().split(/ {2,}/)),
    [
      ['package', 'files', 'lines', 'branches', 'functions'],
      ['agent', '2', '50.0 %', '-', '50.0 %'],
      ['server', '1', '100.0 %', '-', '50.0 %'],
      ['all', '3', '77.8 %', '-', '50.0 %'],
      [''],
    ],
  );
});
