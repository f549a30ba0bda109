import type { Row } from '../measurement.ts';
import type { Results } from '../results.ts';
import { describeAims, figure, isMet, timesAsGood } from './judge.ts';

const BEGIN = '<!-- bench -->';
const END = '<!-- /bench -->';

/** `text` with the table of what has an aim between the two marks; as it is where it has no marks. */
export function withSummary(text: string, results: Results): string {
  const [begin, end] = [text.indexOf(BEGIN), text.indexOf(END)];
  if (begin < 0 || end < begin) return text;
  return `${text.slice(0, begin + BEGIN.length)}\n${renderSummary(results)}\n${text.slice(end)}`;
}

function renderSummary({ machine, outcomes }: Results): string {
  const rows = outcomes.flatMap(({ name, rows }) =>
    rows.filter((row) => isMet(row) !== undefined && isTelling(name, row)),
  );
  return [
    `On ${machine.machine}, ${machine.kernel}; medians.`,
    '',
    '| what | Cloche | beside | | to reach | |',
    '|---|---|---|---|---|---|',
    ...rows.map(tableRow),
  ].join('\n');
}

/** What a long run leaves behind is many lines of nothing; the full report has them. */
function isTelling(measurement: string, { peer }: Row): boolean {
  return measurement !== 'cycles' || peer !== undefined;
}

function tableRow(row: Row): string {
  const { what, unit, subject, peer } = row;
  const ratio = timesAsGood(row);
  const cells = [
    what,
    figure(subject.p50, unit),
    peer ? `${peer.name}: ${figure(peer.figures.p50, unit)}` : '',
    ratio === undefined ? '' : `${ratio.toFixed(ratio < 10 ? 2 : 0)}×`,
    describeAims(row),
    isMet(row) ? 'met' : '**missed**',
  ];
  return `| ${cells.join(' | ')} |`;
}
