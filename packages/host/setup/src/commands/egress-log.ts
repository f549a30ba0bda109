import {
  type Colors,
  type Column,
  jsonLine,
  leaf,
  perform,
  type Session,
  table,
  watchForInterruption,
} from '@cloche/cli/kit';
import type { DecisionEntry, DecisionPage } from '@cloche/protocol';
import type { Command } from 'commander';
import { readDecisions } from './egress-log-client.ts';

const FOLLOW_WAIT_MS = 20_000;

interface EgressLogFlags {
  sandbox?: string;
  follow?: boolean;
}

export function addEgressLogCommand(admin: Command): void {
  const command = leaf(admin, 'egress-log', 'Show network requests of sandboxes with a policy, and the decisions', [
    'cloche admin egress-log --sandbox sbx_…',
    'cloche admin egress-log --follow --json | grep denied',
  ])
    .option('--sandbox <id>', 'only requests of this sandbox')
    .option('-f, --follow', 'follow until interrupted');
  perform(command, showEgressLog);
}

async function showEgressLog(session: Session, { sandbox, follow = false }: EgressLogFlags): Promise<void> {
  using interruption = watchForInterruption();
  const ofSandbox = sandbox === undefined ? {} : { sandboxId: sandbox };
  let shown = 0;
  let page = await readDecisions(ofSandbox, interruption.signal);
  for (;;) {
    await showPage(session, page, shown === 0);
    shown += page.decisions.length;
    if (!page.hasMore && !follow) break;
    const waitMs = page.hasMore ? {} : { waitMs: String(FOLLOW_WAIT_MS) };
    page = await readDecisions({ ...ofSandbox, afterSeq: String(page.nextSeq), ...waitMs }, interruption.signal);
  }
  if (shown === 0) await session.note('No requests since egress started.');
}

async function showPage(session: Session, { decisions, missed }: DecisionPage, isFirst: boolean): Promise<void> {
  const { out } = session.terminal;
  if (missed > 0) await session.note(`${missed} earlier decisions are no longer kept here; read the log file.`);
  if (decisions.length === 0) return;
  if (session.json) {
    for (const decision of decisions) await out.line(jsonLine(decision));
    return;
  }
  const text = table(decisions, columnsFor(out.colors), { colors: out.colors });
  await out.line(isFirst ? text : text.slice(text.indexOf('\n') + 1));
}

/** Returns columns with fixed widths where possible, so that later pages align with the titles of the first. */
function columnsFor(colors: Colors): Column<DecisionEntry>[] {
  const bad = (cell: string, { verdict }: DecisionEntry) => (verdict === 'permitted' ? cell : colors.red(cell));
  return [
    { title: 'TIME', value: ({ at }) => at.slice(11, 23) },
    { title: 'SANDBOX', value: ({ sandboxId }) => sandboxId.padEnd(26) },
    { title: 'VERDICT', value: ({ verdict }) => verdict.padEnd(10), style: bad },
    { title: 'BY', value: ({ protocol = '-' }) => protocol.padEnd(9) },
    { title: 'UP', value: ({ bytesUp = 0 }) => String(bytesUp).padStart(8) },
    { title: 'DOWN', value: ({ bytesDown = 0 }) => String(bytesDown).padStart(10) },
    { title: 'WHERE', value: where },
  ];
}

function where({ host, port, reason, count, status }: DecisionEntry): string {
  if (count !== undefined) return `${count} more decisions, too many to be kept`;
  const about = [status, reason].filter((part) => part !== undefined && part !== '').join(', ');
  return `${host}:${port}${about === '' ? '' : ` (${about})`}`;
}
