import { setTimeout as delay } from 'node:timers/promises';
import { LIMITS } from '@cloche/contract/client';
import { type Cloche, type CurrentSandboxMetrics, isClocheError } from '@cloche/sdk';
import { type Command, InvalidArgumentError } from 'commander';
import { leaf, perform } from '../command.ts';
import { watchForInterruption } from '../interruption.ts';
import { wholeNumber } from '../option-values.ts';
import type { Session } from '../session.ts';
import { counted } from '../terminal/counted.ts';
import { LiveScreen } from '../terminal/live-screen.ts';
import { printable } from '../terminal/printable.ts';
import { type Column, table } from '../terminal/table.ts';
import type { Colors } from '../terminal/terminal.ts';
import { formatBytes } from '../terminal/transfer-bar.ts';
import { cutTo } from '../terminal/width.ts';

const REFRESH_MS = 2_000;

interface TopFlags {
  once?: boolean;
  project?: string;
  limit: number;
}

type Metrics = Awaited<ReturnType<Cloche['sandboxes']['metrics']>>;

export function addTopCommand(program: Command): void {
  const command = leaf(program, 'top', 'Show what live sandboxes use, refreshed until q is pressed', [
    'cloche top',
    'cloche top --once --project prj_…',
  ])
    .option('--once', 'print one table and exit; the default where the output is no terminal')
    .option('--project <id>', 'only sandboxes of this project')
    .option('--limit <number>', 'only this many sandboxes, the newest', sandboxCount, 100);
  perform(command, showTop);
}

async function showTop(session: Session, { once, project: projectId, limit }: TopFlags): Promise<void> {
  using interruption = watchForInterruption({ follows: true });
  const { sandboxes } = await session.connect();
  const measure = (signal: AbortSignal) => sandboxes.metrics({ projectId, limit, signal });
  const first = await measure(interruption.signal);
  if (!once && !session.json && session.terminal.out.isTerminal) {
    await refresh(session, first, measure, interruption.signal);
    return;
  }
  if (first.data.length === 0) await session.note('No sandboxes are ready. `cloche sandbox create` creates one.');
  if (first.data.length === 0 && !session.json) return;
  await session.show(first, () => table(sorted(first), COLUMNS, session.terminal.out));
  if (first.hasMore) await session.note(moreNote(limit));
}

/** Redraws until a key quits. While the service does not answer, shows that and keeps trying. */
async function refresh(
  session: Session,
  first: Metrics,
  measure: (signal: AbortSignal) => Promise<Metrics>,
  interrupted: AbortSignal,
): Promise<void> {
  using screen = new LiveScreen();
  const { colors } = session.terminal.out;
  const signal = AbortSignal.any([screen.quit, interrupted]);
  let metrics = first;
  let problem: string | undefined;
  while (!signal.aborted) {
    screen.draw(frame(metrics, screen.size.columns, colors, problem));
    await delay(REFRESH_MS, undefined, { signal }).catch(() => undefined);
    if (signal.aborted) break;
    try {
      metrics = await measure(signal);
      problem = undefined;
    } catch (error) {
      if (signal.aborted) break;
      if (!isTemporary(error)) throw error;
      problem = error instanceof Error ? error.message : String(error);
    }
  }
  interrupted.throwIfAborted();
}

/** Returns the lines of a frame, none of them wider than the terminal. */
export function frame(metrics: Metrics, width: number, colors: Colors, problem?: string): string[] {
  const { data, hasMore } = metrics;
  const cores = data.reduce((sum, { now }) => sum + now.cpu, 0);
  const count = `${hasMore ? 'the newest ' : ''}${counted(data.length, 'sandbox', 'sandboxes')}`;
  const title = problem ? printable(problem) : `${count}, ${cores.toFixed(2)} cores in use; q quits`;
  const shownTitle = cutTo(title, width);
  return [
    problem ? colors.red(shownTitle) : shownTitle,
    '',
    ...table(sorted(metrics), COLUMNS, { colors, isTerminal: true, columns: width }).split('\n'),
  ];
}

function sorted({ data }: Metrics): CurrentSandboxMetrics[] {
  return data.toSorted((one, other) => other.now.cpu - one.now.cpu || other.now.memoryBytes - one.now.memoryBytes);
}

/** From the most to the least important: a narrow terminal shows the first ones. */
const COLUMNS: readonly Column<CurrentSandboxMetrics>[] = [
  { title: 'SANDBOX', value: ({ sandboxId }) => sandboxId },
  { title: 'CPU', value: ({ now, limits }) => `${now.cpu.toFixed(2)}/${limits.cpu}` },
  { title: 'MEMORY', value: ({ now, limits }) => ofLimit(now.memoryBytes, limits.memoryBytes, formatBytes) },
  { title: 'DISK', value: ({ now, limits }) => ofLimit(now.diskBytes, limits.diskBytes, formatBytes) },
  { title: 'PROCESSES', value: ({ now, limits }) => ofLimit(now.processes, limits.processes) },
  { title: 'SENT', value: ({ now }) => formatBytes(now.networkBytes.egress) },
  { title: 'RECEIVED', value: ({ now }) => formatBytes(now.networkBytes.ingress) },
  { title: 'FILES', value: ({ now, limits }) => ofLimit(now.inodes, limits.inodes) },
];

/** Returns a value with its limit; `-` for what the runtime does not know. */
function ofLimit(
  used: number | undefined,
  limit: number | undefined,
  format: (value: number) => string = String,
): string {
  if (used === undefined) return '-';
  return limit === undefined ? format(used) : `${format(used)}/${format(limit)}`;
}

function moreNote(limit: number): string {
  return `There are more sandboxes. --limit shows more than ${limit}, up to ${LIMITS.measuredSandboxes}.`;
}

function isTemporary(error: unknown): boolean {
  return ['unreachable', 'unavailable', 'rate_limited', 'internal', 'deadline_exceeded'].some(
    (code) => isClocheError(error) && error.code === code,
  );
}

function sandboxCount(text: string): number {
  const count = wholeNumber(text);
  if (count < 1 || count > LIMITS.measuredSandboxes) {
    throw new InvalidArgumentError(`Give a number from 1 to ${LIMITS.measuredSandboxes}.`);
  }
  return count;
}
