/** Prints failures as they occur and, at the end, a table of the part of each package that the tests reach. */
import { relative } from 'node:path';
import type { TestEvent } from 'node:test/reporters';
import { FailureTexts } from './failure-texts.ts';

export interface FileCoverage {
  readonly path: string;
  readonly totalLineCount: number;
  readonly coveredLineCount: number;
  readonly totalBranchCount: number;
  readonly coveredBranchCount: number;
  readonly totalFunctionCount: number;
  readonly coveredFunctionCount: number;
}

export default async function* coverageReporter(source: AsyncIterable<TestEvent>): AsyncGenerator<string> {
  const texts = new FailureTexts();
  for await (const event of source) {
    yield texts.describe(event);
    if (event.type === 'test:coverage') {
      const files = event.data.summary.files.map((file) => ({ ...file, path: relative(process.cwd(), file.path) }));
      yield coverageTable(files);
    }
  }
}

/**
 * Returns a line for each package and one for all. Files that no test loads are not counted: the figures show how much
 * of the loaded files ran.
 *
 * @param files with paths from the root of the checkout
 */
export function coverageTable(files: readonly FileCoverage[]): string {
  const rows = new Map<string, FileCoverage[]>();
  for (const file of files) {
    const name = file.path.split('/')[2] ?? file.path;
    rows.set(name, [...(rows.get(name) ?? []), file]);
  }
  const sorted = [...rows].sort(([one], [other]) => one.localeCompare(other));
  const lines = [...sorted, ['all', files] as const].map(([name, own]) => row(name, own));
  return `${'package'.padEnd(16)}${['files', 'lines', 'branches', 'functions'].map((title) => title.padStart(11)).join('')}\n${lines.join('\n')}\n`;
}

function row(name: string, files: readonly FileCoverage[]): string {
  const share = (covered: keyof FileCoverage, total: keyof FileCoverage) => {
    const sum = (key: keyof FileCoverage) => files.reduce((so, file) => so + Number(file[key]), 0);
    return sum(total) === 0 ? '-' : `${((100 * sum(covered)) / sum(total)).toFixed(1)} %`;
  };
  const cells = [
    String(files.length),
    share('coveredLineCount', 'totalLineCount'),
    share('coveredBranchCount', 'totalBranchCount'),
    share('coveredFunctionCount', 'totalFunctionCount'),
  ];
  return name.padEnd(16) + cells.map((cell) => cell.padStart(11)).join('');
}
