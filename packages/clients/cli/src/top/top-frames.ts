import type { Cloche, CommandInfo, CurrentSandboxMetrics, SandboxMetrics } from '@cloche/sdk';
import { counted } from '../terminal/counted.ts';
import { formatAge } from '../terminal/duration.ts';
import { printable } from '../terminal/printable.ts';
import { type Column, table } from '../terminal/table.ts';
import type { Colors } from '../terminal/terminal.ts';
import { formatBytes } from '../terminal/transfer-bar.ts';
import { cutTo } from '../terminal/width.ts';
import { shownRows, type TopState } from './top-state.ts';

export type Metrics = Awaited<ReturnType<Cloche['sandboxes']['metrics']>>;

/** Data of the sandbox in the detail view. */
export interface OneSandbox {
  readonly metrics: SandboxMetrics;
  /** Commands of the sandbox that are running. */
  readonly commands: readonly CommandInfo[];
}

export interface FrameOptions {
  readonly columns: number;
  readonly rows: number;
  readonly colors: Colors;
  /** Address of the service, which the question before a sandbox is destroyed names. */
  readonly url: string;
  /** Message of the latest error. */
  readonly problem?: string | undefined;
}

const BARS = '▁▂▃▄▅▆▇█';
const HELP = [
  ['↑ ↓', 'select a sandbox'],
  ['Enter', 'show it alone: its last hour, its commands and its network; again, or Esc: back'],
  ['k', 'destroy it, after a question'],
  ['s', 'sort by the next column'],
  ['/', 'show only ids with this text; Enter keeps it, Esc takes it back'],
  ['q', 'quit'],
];

/** Returns the lines of the screen, none of them wider than the terminal. */
export function frameOf(
  state: TopState,
  metrics: Metrics,
  one: OneSandbox | undefined,
  options: FrameOptions,
): string[] {
  const { columns, colors, problem } = options;
  const title = cutTo(printable(problem ?? titleOf(state, metrics, options)), columns);
  const marked = problem === undefined && state.view !== 'confirm' ? title : colors.red(title);
  return [marked, '', ...bodyOf(state, metrics, one, options)];
}

function titleOf(state: TopState, { data, hasMore }: Metrics, { url }: FrameOptions): string {
  if (state.view === 'confirm') return `Destroy ${state.selectedId} at ${url}? y destroys it, any other key does not`;
  if (state.view === 'filter') return `Only ids with: ${state.filter}_`;
  if (state.view === 'help') return 'Any key goes back';
  if (state.view === 'one') return `${state.selectedId}; k destroys it, ? helps, q quits`;
  const cores = data.reduce((sum, { now }) => sum + now.cpu, 0);
  const count = `${hasMore ? 'the newest ' : ''}${counted(data.length, 'sandbox', 'sandboxes')}`;
  const paused = data.filter((one) => one.paused).length;
  const asleep = paused === 0 ? '' : ` (${paused} paused)`;
  const filter = state.filter === '' ? '' : `, only *${state.filter}*`;
  return `${count}${asleep}, ${cores.toFixed(2)} cores in use, by ${state.order}${filter}; ? helps, q quits`;
}

function bodyOf(state: TopState, metrics: Metrics, one: OneSandbox | undefined, options: FrameOptions): string[] {
  const { columns, rows, colors } = options;
  if (state.view === 'help') return HELP.map(([key = '', does]) => cutTo(`${key.padEnd(7)}${does}`, columns));
  if (state.view === 'one' || (state.view === 'confirm' && state.isOnlyOne)) return oneLines(one, options);
  const shown = shownRows(metrics.data, state);
  const to = { colors, isTerminal: true, columns };
  const [titles = '', ...lines] = table(shown, COLUMNS, to).split('\n');
  const selected = Math.max(
    0,
    shown.findIndex(({ sandboxId }) => sandboxId === state.selectedId),
  );
  // The selected line stays in the screen, below two lines of the title and one of the names of the columns.
  const first = Math.max(0, selected - Math.max(1, rows - 3) + 1);
  const marked = lines.map((line, index) => (index === selected ? colors.inverse(line) : line));
  return [titles, ...marked.slice(first)];
}

function oneLines(one: OneSandbox | undefined, { columns, colors }: FrameOptions): string[] {
  if (one === undefined) return ['…'];
  const { samples, limits, now } = one.metrics;
  const rates = (of: 'egress' | 'ingress') =>
    samples.slice(1).map(({ networkBytes }, index) => networkBytes[of] - (samples[index]?.networkBytes[of] ?? 0));
  const graph = (name: string, text: string, values: readonly number[], most?: number) => {
    const head = `${name.padEnd(10)}${text.padEnd(24)}`;
    return cutTo(`${head}${sparkline(values, Math.max(0, Math.min(60, columns - head.length)), most)}`, columns);
  };
  const of = (used: number | undefined, limit: number | undefined, format: (value: number) => string = String) =>
    ofLimit(used, limit, format);
  const commands = one.commands.map((each) => ({ ...each, line: [each.command].flat().join(' ') }));
  const list = table(commands, COMMAND_COLUMNS, { colors, isTerminal: true, columns }).split('\n');
  const graphs = [
    graph(
      'CPU',
      one.metrics.paused ? 'paused' : `${now.cpu.toFixed(2)}/${limits.cpu}`,
      samples.map(({ cpu }) => cpu),
      limits.cpu,
    ),
    graph(
      'MEMORY',
      of(now.memoryBytes, limits.memoryBytes, formatBytes),
      samples.map(({ memoryBytes }) => memoryBytes),
      limits.memoryBytes,
    ),
    graph(
      'DISK',
      of(now.diskBytes, limits.diskBytes, formatBytes),
      samples.map(({ diskBytes = 0 }) => diskBytes),
    ),
    graph(
      'PROCESSES',
      of(now.processes, limits.processes),
      samples.map(({ processes = 0 }) => processes),
    ),
    graph('SENT', formatBytes(now.networkBytes.egress), rates('egress')),
    graph('RECEIVED', formatBytes(now.networkBytes.ingress), rates('ingress')),
  ];
  return [...graphs, '', ...(commands.length === 0 ? [cutTo('No command runs.', columns)] : list)];
}

/** Divides the values into `width` parts and returns a bar for the average of each, the latest at the right. */
export function sparkline(values: readonly number[], width: number, most = Math.max(...values, 0)): string {
  const count = Math.min(width, values.length);
  if (count <= 0) return '';
  return Array.from({ length: count }, (_, index) => {
    const part = values.slice(
      Math.floor((index * values.length) / count),
      Math.floor(((index + 1) * values.length) / count),
    );
    const average = part.reduce((sum, value) => sum + value, 0) / part.length;
    const level = most <= 0 ? 0 : Math.round((average / most) * (BARS.length - 1));
    return BARS[Math.min(BARS.length - 1, Math.max(0, level))];
  }).join('');
}

interface CommandRow extends CommandInfo {
  readonly line: string;
}

const COMMAND_COLUMNS: readonly Column<CommandRow>[] = [
  { title: 'COMMAND', value: ({ line }) => line },
  { title: 'USER', value: ({ user }) => user },
  { title: 'STARTED', value: ({ startedAt }) => formatAge(startedAt) },
  { title: 'ID', value: ({ id }) => id },
];

/** Columns by importance: a narrow terminal shows the first ones. */
export const COLUMNS: readonly Column<CurrentSandboxMetrics>[] = [
  { title: 'SANDBOX', value: ({ sandboxId }) => sandboxId },
  { title: 'CPU', value: ({ now, limits, paused }) => (paused ? 'paused' : `${now.cpu.toFixed(2)}/${limits.cpu}`) },
  { title: 'MEMORY', value: ({ now, limits }) => ofLimit(now.memoryBytes, limits.memoryBytes, formatBytes) },
  { title: 'DISK', value: ({ now, limits }) => ofLimit(now.diskBytes, limits.diskBytes, formatBytes) },
  { title: 'PROCESSES', value: ({ now, limits }) => ofLimit(now.processes, limits.processes) },
  { title: 'SENT', value: ({ now }) => formatBytes(now.networkBytes.egress) },
  { title: 'RECEIVED', value: ({ now }) => formatBytes(now.networkBytes.ingress) },
  { title: 'FILES', value: ({ now, limits }) => ofLimit(now.inodes, limits.inodes) },
];

/** Returns a value with its limit, or `-` if the runtime does not report the value. */
function ofLimit(
  used: number | undefined,
  limit: number | undefined,
  format: (value: number) => string = String,
): string {
  if (used === undefined) return '-';
  return limit === undefined ? format(used) : `${format(used)}/${format(limit)}`;
}
