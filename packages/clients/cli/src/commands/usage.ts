import type { UsageRow } from '@cloche/sdk';
import { type Command, Option } from 'commander';
import { leaf, perform } from '../command.ts';
import type { Session } from '../session.ts';
import { type Column, table } from '../terminal/table.ts';

const HOUR_MS = 3_600_000;
const MEBIBYTE = 1024 * 1024;
/** MiB and milliseconds in a GiB·h. */
const GIB_HOUR = 1024 * HOUR_MS;

interface UsageFlags {
  from?: string;
  to?: string;
  by: 'day' | 'hour';
  project?: string;
}

type Line = Pick<UsageRow, keyof typeof MEASURES> & { readonly time: string; readonly project: string };

export function addUsageCommand(program: Command): void {
  const command = leaf(program, 'usage', 'Show what projects used, by default in this month (UTC)', [
    'cloche usage --from 2026-01-01 --to 2026-02-01',
    'cloche usage --project prj_… --by hour --from 2026-01-31 --to 2026-02-01',
  ])
    .option('--from <time>', 'beginning, such as 2026-01-31 or 2026-01-31T09:00Z; default: that of the month')
    .option('--to <time>', 'end; default: now')
    .addOption(new Option('--by <length>', 'one line for each').choices(['day', 'hour']).default('day'))
    .option('--project <id>', 'usage of one project');
  perform(command, showUsage);
}

async function showUsage(session: Session, { from, to, by, project: projectId }: UsageFlags): Promise<void> {
  const data = await (await session.connect()).usage.list({ from, to, groupBy: by, projectId });
  if (data.length === 0) await session.note('Nothing was used in this time.');
  if (data.length === 0 && !session.json) return;
  const lines = data.map((row): Line => ({ ...row, time: timeOf(row, by), project: row.projectId }));
  const all = [...lines, totalOf(lines)];
  const columns: Column<Line>[] = [
    { title: by === 'day' ? 'DAY' : 'HOUR', value: ({ time }) => time },
    { title: 'PROJECT', value: ({ project }) => project },
    ...Object.entries(MEASURES).map(([name, measure]) =>
      rightAligned(measure.title, all, (line) => measure.text(line[name as Measure])),
    ),
  ];
  await session.show({ data }, () => table(all, columns, session.terminal.out));
}

function timeOf({ from }: UsageRow, by: UsageFlags['by']): string {
  return by === 'day' ? from.slice(0, 10) : from.slice(0, 16).replace('T', ' ');
}

function totalOf(lines: readonly Line[]): Line {
  const sumOf = (name: Measure) => lines.reduce((total, line) => total + line[name], 0);
  const sums = Object.fromEntries(Object.keys(MEASURES).map((name) => [name, sumOf(name as Measure)]));
  return { ...(sums as Record<Measure, number>), time: 'total', project: '' };
}

function rightAligned(title: string, lines: readonly Line[], text: (line: Line) => string): Column<Line> {
  const width = Math.max(title.length, ...lines.map((line) => text(line).length));
  return { title: title.padStart(width), value: (line) => text(line).padStart(width) };
}

const per = (unit: number) => (value: number) => decimal(value / unit);
const count = (value: number) => value.toLocaleString('en-US');

/** The columns of the table in their order, each with its unit. */
const MEASURES = {
  sandboxMs: { title: 'SANDBOX h', text: per(HOUR_MS) },
  cpuMs: { title: 'CPU h', text: per(HOUR_MS) },
  memoryMbMs: { title: 'MEMORY GiB·h', text: per(GIB_HOUR) },
  diskMbMs: { title: 'DISK GiB·h', text: per(GIB_HOUR) },
  pausedMs: { title: 'PAUSED h', text: per(HOUR_MS) },
  runs: { title: 'RUNS', text: count },
  commands: { title: 'COMMANDS', text: count },
  egressBytes: { title: 'OUT MiB', text: per(MEBIBYTE) },
  ingressBytes: { title: 'IN MiB', text: per(MEBIBYTE) },
  artifactBytes: { title: 'ARTIFACTS MiB', text: per(MEBIBYTE) },
} as const satisfies Partial<Record<keyof UsageRow, { title: string; text: (value: number) => string }>>;
type Measure = keyof typeof MEASURES;

/** Returns a number with three decimals, or `<0.001` for a smaller one. */
function decimal(value: number): string {
  if (value > 0 && value < 0.001) return '<0.001';
  return value.toLocaleString('en-US', { minimumFractionDigits: 3, maximumFractionDigits: 3 });
}
