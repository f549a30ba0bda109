import type { SandboxId } from '@cloche/contract';
import { LIMITS } from '@cloche/contract/client';
import { Commands } from '@cloche/sdk';
import { type Command, InvalidArgumentError } from 'commander';
import { leaf, perform } from '../command.ts';
import { watchForInterruption } from '../interruption.ts';
import { wholeNumber } from '../option-values.ts';
import type { Session } from '../session.ts';
import { table } from '../terminal/table.ts';
import { LiveTop, type TopSource } from '../top/live-top.ts';
import { COLUMNS, type Metrics } from '../top/top-frames.ts';
import { shownRows } from '../top/top-state.ts';

interface TopFlags {
  once?: boolean;
  project?: string;
  limit: number;
}

export function addTopCommand(program: Command): void {
  const command = leaf(program, 'top [sandbox]', 'Show what live sandboxes use, refreshed until q is pressed', [
    'cloche top',
    'cloche top sbx_…',
    'cloche top --once --project prj_…',
  ])
    .option('--once', 'print one table and exit; the default where the output is no terminal')
    .option('--project <id>', 'only sandboxes of this project')
    .option('--limit <number>', 'only this many sandboxes, the newest', sandboxCount, 100)
    .addHelpText(
      'after',
      '\nArrows select a sandbox, Enter shows it alone, k destroys it, s sorts, / filters, ? helps.',
    );
  perform(command, showTop);
}

async function showTop(session: Session, flags: TopFlags, sandboxId?: string): Promise<void> {
  const { once, project: projectId, limit } = flags;
  using interruption = watchForInterruption({ follows: true });
  const { signal } = interruption;
  const cloche = await session.connect();
  const { url } = await session.settings();
  const source: TopSource = {
    url,
    list: (calls) => cloche.sandboxes.metrics({ projectId, limit, ...calls }),
    one: async (id, calls) => {
      const params = { sandboxId: id as SandboxId };
      const [{ metrics }, commands] = await Promise.all([
        cloche.call('getSandboxMetrics', { ...calls, params, query: {} }),
        new Commands(cloche, params.sandboxId).list(calls),
      ]);
      return { metrics, commands: commands.map(({ info }) => info).filter(({ status }) => status === 'running') };
    },
    destroy: async (id, calls) => {
      await cloche.call('killSandbox', { ...calls, params: { sandboxId: id as SandboxId } });
    },
  };
  const isLive = !once && !session.json && session.terminal.out.isTerminal;
  if (isLive) return new LiveTop(source, session.terminal.out.colors, sandboxId).run(signal);
  if (sandboxId !== undefined) {
    const { metrics } = await source.one(sandboxId, { signal });
    return session.show(metrics, () => table([metrics], COLUMNS, session.terminal.out));
  }
  await showOnce(session, await source.list({ signal }), limit);
}

async function showOnce(session: Session, first: Metrics, limit: number): Promise<void> {
  if (first.data.length === 0) await session.note('No sandboxes are ready. `cloche sandbox create` creates one.');
  if (first.data.length === 0 && !session.json) return;
  const rows = shownRows(first.data, { order: 'cpu', filter: '' });
  await session.show(first, () => table(rows, COLUMNS, session.terminal.out));
  if (first.hasMore) await session.note(moreNote(limit));
}

function moreNote(limit: number): string {
  return `There are more sandboxes. --limit shows more than ${limit}, up to ${LIMITS.measuredSandboxes}.`;
}

function sandboxCount(text: string): number {
  const count = wholeNumber(text);
  if (count < 1 || count > LIMITS.measuredSandboxes) {
    throw new InvalidArgumentError(`Give a number from 1 to ${LIMITS.measuredSandboxes}.`);
  }
  return count;
}
