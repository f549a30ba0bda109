import type { Row } from '../measurement.ts';
import type { Results } from '../results.ts';
import { describeAims, figure, isMet } from './judge.ts';

const BEGIN = '<!-- bench -->';
const END = '<!-- /bench -->';

/** Rows that the README shows, at most four, each with its name there. */
export const HEADLINES: Readonly<Record<string, string>> = {
  'create → ready, warm pool, one at a time': 'create a sandbox → ready, from the pool',
  'create → first result of `1+1`': 'create a sandbox → first result of `1+1`',
  'create → first result of `import pandas; pandas.DataFrame(…)`': 'create a sandbox → first pandas table',
  'memory of one of them, of all processes and the kernel': 'memory of a sandbox, 700 live with pandas imported',
};

/** Returns the README's text with a table of {@link HEADLINES} between the marks. Unchanged if it has no marks. */
export function withHeadlines(readme: string, results: Results): string {
  const rows = results.outcomes.flatMap((outcome) => outcome.rows).flatMap(headlineCells);
  return withTable(readme, results, ['what', 'Cloche', 'compared with'], rows);
}

/**
 * Returns the text of docs/performance.md with a table of every row that has a target. Unchanged if it has no marks.
 */
export function withTargets(page: string, results: Results): string {
  const rows = results.outcomes.flatMap(({ name, rows }) =>
    rows.filter((row) => isMet(row) !== undefined && isTelling(name, row)),
  );
  return withTable(page, results, ['what', 'Cloche', 'compared with', 'target', ''], rows.map(targetCells));
}

function withTable(text: string, { machine }: Results, head: readonly string[], rows: readonly string[][]): string {
  const [begin, end] = [text.indexOf(BEGIN), text.indexOf(END)];
  if (begin < 0 || end < begin) return text;
  const table = [head, head.map(() => '---'), ...rows].map((cells) => `| ${cells.join(' | ')} |`);
  const lines = [`On ${machine.machine}, ${machine.kernel}; medians.`, '', ...table];
  return `${text.slice(0, begin + BEGIN.length)}\n${lines.join('\n')}\n${text.slice(end)}`;
}

/** Leaves out the leak counts of 2,000 cycles: many rows of zeros, which the full report has. */
function isTelling(measurement: string, { peer }: Row): boolean {
  return measurement !== 'cycles' || peer !== undefined;
}

function headlineCells(row: Row): string[][] {
  const what = HEADLINES[row.what];
  return what === undefined ? [] : [figureCells({ ...row, what })];
}

function figureCells({ what, unit, subject, peer }: Row): string[] {
  // The full report has the peer's version.
  const name = peer?.name.replace(/ \(.*?\)/, '');
  return [what, figure(subject.p50, unit), peer ? `${name}: ${figure(peer.figures.p50, unit)}` : ''];
}

function targetCells(row: Row): string[] {
  return [...figureCells(row), describeAims(row), isMet(row) ? 'met' : '**missed**'];
}
