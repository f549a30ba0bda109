import {
  duration,
  formatAge,
  formatLeft,
  group,
  leaf,
  list,
  perform,
  type Session,
  scopesOf,
  table,
} from '@cloche/cli/kit';
import { type CreateKey, KeyCreated, KeyRevoked, OrgCreated, OrgList, ReconcileReport } from '@cloche/protocol';
import type { Command } from 'commander';
import { Type } from 'typebox';
import { addAdminAuditCommands } from './admin-audit.ts';
import { addAdminQuotaCommands } from './admin-quota.ts';
import { addCopyDatabaseCommand } from './copy-database.ts';
import { addEgressLogCommand } from './egress-log.ts';
import { callOperator } from './operator-client.ts';

const RotationReport = Type.Object({ rotated: Type.Integer() });
const DestroyAllReport = Type.Object({ destroyed: Type.Integer() });

export function addAdminCommands(program: Command): void {
  const admin = group(program, 'admin', 'Operate the installation on this machine (root)');
  addOrgCommands(group(admin, 'org', 'Organizations'));

  const keys = group(admin, 'key', 'API keys');
  const key = leaf(keys, 'create', 'Create an API key and print it; it is not shown again', [
    'cloche admin key create --scopes "*"',
    'cloche admin key create --org acme --scopes sandbox:create,sandbox:read,code:run --expires 30d',
  ])
    .option('--org <org>', 'id or name (default: the first organization)')
    .requiredOption('--scopes <scopes>', 'comma-separated scopes; * for all', list)
    .option('--projects <ids>', 'only for these projects, comma-separated', list)
    .option('--expires <duration>', 'lifetime, such as 30d (default: no end)', duration)
    .option('--name <name>', 'name of the key');
  perform(key, createKey);
  const revoke = leaf(keys, 'revoke <key>', 'End an API key of any organization now', [
    'cloche admin key revoke key_…',
  ]);
  perform(revoke, async (session, _options, id: string) => {
    const answer = await callOperator('POST', `/keys/${encodeURIComponent(id)}/revoke`, KeyRevoked);
    await session.show(answer, () => answer.key.id);
    await session.note('revoked');
  });

  addAdminQuotaCommands(admin);
  addEgressLogCommand(admin);
  addAdminAuditCommands(admin);
  addCopyDatabaseCommand(admin);

  const secrets = group(admin, 'secrets', 'The encryption of secrets');
  perform(leaf(secrets, 'rotate', 'Encrypt all secrets with a new key'), async (session) => {
    const report = await callOperator('POST', '/rotate-secrets', RotationReport);
    await session.show(report, () => `${count(report.rotated, 'secret')} encrypted with the newest key`);
  });

  perform(leaf(admin, 'gc', 'Correct differences between records and running instances now'), async (session) => {
    const report = await callOperator('POST', '/reconcile', ReconcileReport);
    const { instancesRemoved, sandboxesEnded } = report;
    await session.show(
      report,
      () => `${count(instancesRemoved, 'instance')} removed, ${count(sandboxesEnded, 'sandbox')} ended`,
    );
  });

  perform(leaf(admin, 'destroy-all', 'Destroy every sandbox of the installation'), async (session) => {
    const report = await callOperator('POST', '/destroy-all', DestroyAllReport);
    await session.show(report, () => `${count(report.destroyed, 'sandbox')} destroyed`);
  });
}

function addOrgCommands(org: Command): void {
  const create = leaf(org, 'create <name>', 'Create an organization with its default project');
  perform(create, async (session, _options, name: string) => {
    const { org: created } = await callOperator('POST', '/orgs', OrgCreated, { name });
    await session.show(created, () => created.id);
    await session.note(`default project ${created.defaultProjectId}; \`cloche admin key create --org ${created.id}\``);
  });

  perform(leaf(org, 'list', 'List the organizations'), async (session) => {
    const { data } = await callOperator('GET', '/orgs', OrgList);
    const { out } = session.terminal;
    await session.show({ data }, () =>
      table(
        data,
        [
          { title: 'ID', value: ({ id }) => id },
          { title: 'NAME', value: ({ name }) => name },
          { title: 'DEFAULT PROJECT', value: ({ defaultProjectId }) => defaultProjectId },
          { title: 'CREATED', value: ({ createdAt }) => formatAge(createdAt) },
        ],
        out,
      ),
    );
  });
}

interface KeyFlags {
  org?: string;
  scopes: string[];
  projects?: string[];
  expires?: number;
  name?: string;
}

async function createKey(session: Session, { org, scopes, projects, expires, name }: KeyFlags): Promise<void> {
  const body: CreateKey = {
    scopes: scopesOf(scopes),
    ...(org === undefined ? {} : { org }),
    ...(projects === undefined ? {} : { projectIds: projects }),
    ...(expires === undefined ? {} : { expiresInMs: expires }),
    ...(name === undefined ? {} : { name }),
  };
  const { key } = await callOperator('POST', '/keys', KeyCreated, body);
  await session.show(key, () => key.secret);
  const until = key.expiresAt === undefined ? '' : `, ends in ${formatLeft(key.expiresAt)}`;
  await session.note(`${key.id} of ${key.orgId}: ${key.scopes.join(', ')}${until}; the key is not shown again`);
}

function count(number: number, what: 'instance' | 'sandbox' | 'secret'): string {
  const several = what === 'sandbox' ? 'sandboxes' : `${what}s`;
  return `${number} ${number === 1 ? what : several}`;
}
