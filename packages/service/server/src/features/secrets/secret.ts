import type { OrgId, ProjectId, Secret, SecretId } from '@cloche/contract';
import type { Selectable } from 'kysely';
import { timestamp } from '../../platform/base/clock.ts';
import type { SecretTable } from '../../platform/db/tables/secret-tables.ts';

/** Times are milliseconds since the epoch. */
export interface SecretRecord {
  readonly id: SecretId;
  readonly orgId: OrgId;
  readonly projectId: ProjectId;
  readonly name: string;
  readonly hosts: readonly string[];
  /** Encrypted; empty once the secret is deleted. */
  readonly value: string;
  readonly createdAt: number;
  readonly updatedAt: number;
  readonly deletedAt: number | undefined;
}

/** Returns the secret as clients see it, without its value. */
export function toSecret(record: SecretRecord): Secret {
  return {
    id: record.id,
    orgId: record.orgId,
    projectId: record.projectId,
    name: record.name,
    hosts: [...record.hosts],
    createdAt: timestamp(record.createdAt),
    updatedAt: timestamp(record.updatedAt),
    ...(record.deletedAt === undefined ? {} : { deletedAt: timestamp(record.deletedAt) }),
  };
}

/** Converts a row. The casts are sound because only the service writes these columns. */
export function toRecord(row: Selectable<SecretTable>): SecretRecord {
  return {
    id: row.id as SecretId,
    orgId: row.org_id as OrgId,
    projectId: row.project_id as ProjectId,
    name: row.name,
    hosts: JSON.parse(row.hosts),
    value: row.value,
    createdAt: row.created_at,
    updatedAt: row.updated_at,
    deletedAt: row.deleted_at ?? undefined,
  };
}
