import { CliError, group, leaf, perform, type Session } from '@cloche/cli/kit';
import { AuditVerification, AuditVerifications } from '@cloche/protocol';
import { type Command, Option } from 'commander';
import { callOperator, readOperatorLines } from './operator-client.ts';

interface ExportFlags {
  org?: string;
  from?: string;
  to?: string;
}

export function addAdminAuditCommands(admin: Command): void {
  const audit = group(admin, 'audit', 'Audit events');
  const verify = leaf(audit, 'verify', 'Check that no audit event was changed, removed or inserted', [
    'cloche admin audit verify',
    'cloche admin audit verify --org acme',
  ]).option('--org <org>', 'id or name (default: all organizations)');
  perform(verify, verifyAudit);

  const exporting = leaf(audit, 'export', 'Print the audit events of an organization as lines of JSON', [
    'cloche admin audit export --org acme --from 2026-01-01 --to 2026-02-01',
  ])
    .option('--org <org>', 'id or name (default: the first organization)')
    .option('--from <time>', 'only events at or after this time, in ISO 8601')
    .option('--to <time>', 'only events before this time, in ISO 8601')
    .addOption(new Option('--format <format>', 'form of the output').choices(['jsonl']).default('jsonl'));
  perform(exporting, exportAudit);
}

async function verifyAudit(session: Session, { org }: { org?: string }): Promise<void> {
  const answer =
    org === undefined
      ? await callOperator('GET', '/audit/verify', AuditVerifications)
      : await callOperator('GET', pathOf('/audit/verify', { org }), AuditVerification);
  const reports = 'data' in answer ? answer.data : [answer];
  await session.show(answer, () => reports.map(textOf).join('\n'));
  const broken = reports.filter(({ problemCount }) => problemCount > 0);
  const found = broken.map(({ orgId, problemCount }) => `The audit events of ${orgId} have ${problemCount} problems.`);
  if (found.length > 0) throw new CliError(found.join('\n'));
}

function textOf({ orgId, events, lastSeq, lastHash, problems }: AuditVerification): string {
  return [
    ...problems.map(({ seq, kind, message }) => `${seq} ${kind}: ${message}`),
    `${events} audit events of ${orgId} checked; the newest is ${lastSeq}, with hash ${lastHash}`,
  ].join('\n');
}

async function exportAudit(session: Session, { org, from, to }: ExportFlags): Promise<void> {
  for await (const line of readOperatorLines(pathOf('/audit/export', { org, from, to }))) {
    await session.terminal.out.line(line);
  }
}

function pathOf(path: string, query: Readonly<Record<string, string | undefined>>): string {
  const given = Object.entries(query).filter((entry): entry is [string, string] => entry[1] !== undefined);
  return `${path}?${new URLSearchParams(given)}`;
}
