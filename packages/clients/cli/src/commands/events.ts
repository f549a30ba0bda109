import type { EventTypeFilter, ResourceEvent } from '@cloche/sdk';
import type { Command } from 'commander';
import { leaf, perform } from '../command.ts';
import { watchForInterruption } from '../interruption.ts';
import { list, wholeNumber } from '../option-values.ts';
import type { Session } from '../session.ts';
import { formatEnd, formatTime } from '../terminal/duration.ts';
import { reasonText } from '../terminal/reason-text.ts';
import type { Column, TableOutput } from '../terminal/table.ts';
import { tablePrinter } from '../terminal/table-printer.ts';

interface EventsFlags {
  follow?: boolean;
  after?: number;
  types?: EventTypeFilter[];
  project?: string;
}

export function addEventsCommand(program: Command): void {
  const command = leaf(program, 'events', 'Show what happened to sandboxes, artifacts and other resources', [
    'cloche events',
    "cloche events -f --types 'sandbox.*,artifact.created'",
    'cloche events -f --after 1041 --json',
  ])
    .option('-f, --follow', 'print new events until interrupted; with --after, also those after it')
    .option('--after <seq>', 'only events with a larger number', wholeNumber)
    .option('--types <types>', 'only events of these types, such as sandbox.* or artifact.created', list)
    .option('--project <id>', 'only events of this project');
  perform(command, showEvents);
}

async function showEvents(session: Session, flags: EventsFlags): Promise<void> {
  using interruption = watchForInterruption({ follows: flags.follow ?? false });
  const { events } = await session.connect();
  const filter = { types: flags.types, projectId: flags.project, signal: interruption.signal };
  const print = tablePrinter(session, columnsFor(session.terminal.out));
  if (flags.follow) {
    const afterSeq = flags.after ?? (await events.lastSeq({ signal: interruption.signal }));
    for await (const event of events.stream({ ...filter, afterSeq })) await print([event]);
    return;
  }
  let shown = 0;
  for (let afterSeq = flags.after ?? 0, hasMore = true; hasMore; ) {
    const page = await events.list({ ...filter, afterSeq });
    await print(page.data);
    shown += page.data.length;
    ({ nextSeq: afterSeq, hasMore } = page);
  }
  if (shown === 0) await session.note('There are no such events.');
}

/** Columns with fixed widths where possible, so that later events align with the titles. */
function columnsFor({ isTerminal }: TableOutput): readonly Column<ResourceEvent>[] {
  return [
    { title: 'SEQ', value: ({ seq }) => String(seq).padEnd(7) },
    { title: 'TIME', value: ({ at }) => (isTerminal ? formatTime(at) : at) },
    { title: 'TYPE', value: ({ type }) => type.padEnd(17) },
    { title: 'RESOURCE', value: ({ data }) => nameOf(resourceOf(data)).padEnd(24) },
    { title: 'DETAIL', value: ({ data }) => detailOf(resourceOf(data)).padEnd(20) },
    { title: 'PROJECT', value: ({ projectId = '-' }) => projectId },
  ];
}

interface Resource {
  readonly id?: string;
  /** The event is about a quota, which has no id. */
  readonly quota?: string;
  readonly destroyedReason?: string;
  readonly failureReason?: string;
  readonly name?: string;
  readonly templateSlug?: string;
  readonly expiresAt?: string;
  readonly status?: string;
}

function resourceOf(data: ResourceEvent['data']): Resource {
  const [resource] = Object.values<Resource>(data);
  return resource ?? {};
}

function nameOf({ id, quota = '-' }: Resource): string {
  return id ?? quota;
}

function detailOf({ failureReason, destroyedReason, name, templateSlug, expiresAt, status }: Resource): string {
  const reason = failureReason ?? (destroyedReason && reasonText(destroyedReason)) ?? name;
  if (reason !== undefined) return reason;
  const isOpen = expiresAt !== undefined && Date.parse(expiresAt) > Date.now() && status !== 'destroyed';
  if (templateSlug !== undefined && isOpen) return `${templateSlug}, ends in ${formatEnd(expiresAt)}`;
  return templateSlug ?? status ?? '';
}
