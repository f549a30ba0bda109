import type { Row } from '../measurement.ts';
import type { Results, StoredOutcome } from '../results.ts';
import { describeAims, figure, isMet, slowEnd, timesAsGood } from './judge.ts';

/** Returns the text of `bench/results.md`. */
export function renderMarkdown({ machine, outcomes }: Results): string {
  const curves = outcomes.some(({ curves = [] }) => curves.length > 0);
  return [
    '# Cloche beside its peers',
    '',
    'Made by `npm run bench`; how each figure comes about is in [README.md](README.md). The median is what is compared; p99 is of times, and of rates the least.',
    '',
    ...Object.entries(machine).map(([name, value]) => `- ${name}: ${value}`),
    '',
    ...outcomes.flatMap(section),
    ...(curves ? ['## Latency against live sandboxes', '', '![Latency against live sandboxes](results.svg)', ''] : []),
  ].join('\n');
}

function section({ title, rows, at, load, quick }: StoredOutcome): string[] {
  if (rows.length === 0) return [];
  return [
    `## ${title[0]?.toUpperCase()}${title.slice(1)}`,
    '',
    `Measured ${at}, load ${load} at its start${quick ? ', in a quick run' : ''}.`,
    '',
    '| what | p50 | p99 | n | beside | p50 | p99 | ratio | to reach | |',
    '|---|---|---|---|---|---|---|---|---|---|',
    ...rows.map(tableRow),
    '',
    ...rows.flatMap(({ what, note }) => (note ? [`- ${what}: ${note}.`] : [])),
    '',
  ];
}

function tableRow(row: Row): string {
  const { what, unit, subject, peer } = row;
  const ratio = timesAsGood(row);
  const met = isMet(row);
  const cells = [
    what,
    figure(subject.p50, unit),
    subject.count > 1 ? figure(slowEnd(subject, unit), unit) : '',
    String(subject.count),
    peer?.name ?? '',
    peer ? figure(peer.figures.p50, unit) : '',
    peer ? figure(slowEnd(peer.figures, unit), unit) : '',
    ratio === undefined ? '' : `${ratio.toFixed(ratio < 10 ? 2 : 0)}×`,
    describeAims(row),
    met === undefined ? '' : met ? 'met' : '**missed**',
  ];
  return `| ${cells.join(' | ')} |`;
}
