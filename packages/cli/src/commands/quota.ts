import type { ProjectQuotas } from '@cloche/contract';
import { QuotaList } from '@cloche/protocol';
import type { Command } from 'commander';
import { group, leaf, perform } from '../command.ts';
import { callOperator } from '../operator-client.ts';
import { quota } from '../option-values.ts';
import type { Session } from '../session.ts';
import { table } from '../terminal/table.ts';

interface Use {
  readonly quota: string;
  readonly limit: number | null;
  readonly used: number;
  readonly project?: string;
}

export function addQuotaCommand(program: Command): void {
  const command = leaf(program, 'quota', 'Show quotas with their limits and their use', [
    'cloche quota',
    'cloche quota --project prj_…',
  ]).option('--project <project>', 'quotas of one project');
  perform(command, async (session, { project: projectId }: { project?: string }) => {
    await show(session, await (await session.connect()).quotas.list({ projectId }));
  });
}

export function addAdminQuotaCommands(admin: Command): void {
  const quotas = group(admin, 'quota', 'Limits of organizations');

  const list = leaf(quotas, 'list', 'Show the quotas of an organization').requiredOption('--org <org>', 'id or name');
  perform(list, async (session, { org }: { org: string }) => {
    await show(session, (await callOperator('GET', pathOf(org), QuotaList)).data);
  });

  const set = leaf(quotas, 'set <name=number...>', 'Set limits of an organization; NAME=none removes one', [
    'cloche admin quota set --org acme liveSandboxes=50 artifactBytes=10000000000',
    'cloche admin quota set --org acme liveSandboxes=none',
  ]).requiredOption('--org <org>', 'id or name');
  perform(set, async (session, { org }: { org: string }, settings: string[]) => {
    const changes = settings.reduce<ProjectQuotas>((all, text) => quota(text, all), {});
    await show(session, (await callOperator('PATCH', pathOf(org), QuotaList, changes)).data);
  });
}

function pathOf(org: string): string {
  return `/orgs/${encodeURIComponent(org)}/quotas`;
}

async function show(session: Session, data: readonly Use[]): Promise<void> {
  const columns = [
    { title: 'QUOTA', value: ({ quota: name }: Use) => name },
    { title: 'USED', value: ({ used }: Use) => String(used) },
    { title: 'LIMIT', value: ({ limit }: Use) => (limit === null ? 'none' : String(limit)) },
    { title: 'PROJECT', value: ({ project }: Use) => project ?? '' },
  ];
  const shown = data.some(({ project }) => project !== undefined) ? columns : columns.slice(0, 3);
  await session.show({ data }, () => table(data, shown, session.terminal.out.colors));
}
