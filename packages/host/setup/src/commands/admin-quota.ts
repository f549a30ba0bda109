import { CliError, group, leaf, perform, quota, showQuotas } from '@cloche/cli/kit';
import type { ProjectQuotas } from '@cloche/contract';
import { OrgList, QuotaList } from '@cloche/protocol';
import type { Command } from 'commander';
import { callOperator } from './operator-client.ts';

export function addAdminQuotaCommands(admin: Command): void {
  const quotas = group(admin, 'quota', 'Limits of organizations');

  const list = leaf(quotas, 'list', 'Show the quotas of an organization').option(
    '--org <org>',
    'id or name (default: the first organization)',
  );
  perform(list, async (session, { org }: { org?: string }) => {
    const [first] = org === undefined ? (await callOperator('GET', '/orgs', OrgList)).data : [{ id: org }];
    if (first === undefined) throw new CliError('There is no organization; `cloche admin org create` creates one.');
    await showQuotas(session, (await callOperator('GET', pathOf(first.id), QuotaList)).data);
  });

  const set = leaf(quotas, 'set <name=number...>', 'Set limits of an organization; NAME=none removes one', [
    'cloche admin quota set --org acme liveSandboxes=50 artifactBytes=10000000000',
    'cloche admin quota set --org acme liveSandboxes=none',
  ]).requiredOption('--org <org>', 'id or name');
  perform(set, async (session, { org }: { org: string }, settings: string[]) => {
    const changes = settings.reduce<ProjectQuotas>((all, text) => quota(text, all), {});
    await showQuotas(session, (await callOperator('PATCH', pathOf(org), QuotaList, changes)).data);
  });
}

function pathOf(org: string): string {
  return `/orgs/${encodeURIComponent(org)}/quotas`;
}
