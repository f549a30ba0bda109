import type { Command } from 'commander';
import { leaf, perform } from '../command.ts';
import type { Session } from '../session.ts';
import { table } from '../terminal/table.ts';

/** A quota with its use. */
export interface Use {
  readonly quota: string;
  readonly limit: number | null;
  readonly used: number;
  readonly project?: string;
}

export function addQuotaCommand(program: Command): void {
  const command = leaf(program, 'quota', 'Show quotas with their limits and their use', [
    'cloche quota',
    'cloche quota --project prj_…',
  ]).option('--project <id>', 'quotas of one project');
  perform(command, async (session, { project: projectId }: { project?: string }) => {
    await showQuotas(session, await (await session.connect()).quotas.list({ projectId }));
  });
}

/** Prints quotas as a table. */
export async function showQuotas(session: Session, data: readonly Use[]): Promise<void> {
  const columns = [
    { title: 'QUOTA', value: ({ quota: name }: Use) => name },
    { title: 'USED', value: ({ used }: Use) => String(used) },
    { title: 'LIMIT', value: ({ limit }: Use) => (limit === null ? 'none' : String(limit)) },
    { title: 'PROJECT', value: ({ project }: Use) => project ?? '' },
  ];
  const shown = data.some(({ project }) => project !== undefined) ? columns : columns.slice(0, 3);
  await session.show({ data }, () => table(data, shown, session.terminal.out));
}
