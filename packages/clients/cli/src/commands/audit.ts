import type { AuditEvent } from '@cloche/sdk';
import type { Command } from 'commander';
import { leaf, perform } from '../command.ts';
import { watchForInterruption } from '../interruption.ts';
import type { Session } from '../session.ts';
import { formatTime } from '../terminal/duration.ts';
import type { Column, TableOutput } from '../terminal/table.ts';
import { tablePrinter } from '../terminal/table-printer.ts';

/** Events printed at once. */
const BLOCK = 100;

interface AuditFlags {
  actor?: string;
  action?: string;
  target?: string;
}

export function addAuditCommand(program: Command): void {
  const command = leaf(program, 'audit', 'Show which key changed what, and which requests were refused', [
    'cloche audit --actor key_…',
    'cloche audit --action api_key.created --json',
  ])
    .option('--actor <id>', 'only events of this API key, or operator or system')
    .option('--action <action>', 'only events with this action, such as sandbox.created')
    .option('--target <id>', 'only events about this resource');
  perform(command, showAudit);
}

async function showAudit(session: Session, flags: AuditFlags): Promise<void> {
  using interruption = watchForInterruption();
  const { auditEvents } = await session.connect();
  let block: AuditEvent[] = [];
  let shown = 0;
  const printBlock = tablePrinter(session, columnsFor(session.terminal.out));
  const print = async () => {
    await printBlock(block);
    shown += block.length;
    block = [];
  };
  for await (const event of auditEvents.all({ ...flags, signal: interruption.signal })) {
    block.push(event);
    if (block.length === BLOCK) await print();
  }
  await print();
  if (shown === 0) await session.note('There are no such audit events.');
}

const columnsFor = ({ isTerminal }: TableOutput): readonly Column<AuditEvent>[] => [
  { title: 'SEQ', value: ({ seq }) => String(seq).padEnd(7) },
  { title: 'TIME', value: ({ at }) => (isTerminal ? formatTime(at) : at) },
  { title: 'ACTOR', value: ({ actor }) => actor.id.padEnd(24) },
  { title: 'ACTION', value: ({ action }) => action.padEnd(16) },
  { title: 'TARGET', value: ({ target }) => target.id.padEnd(24) },
  { title: 'OUTCOME', value: ({ outcome, code }) => (code === undefined ? outcome : `${outcome} (${code})`) },
];
