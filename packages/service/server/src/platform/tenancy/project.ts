import type { Metadata, OrgId, Project, ProjectId, ProjectQuotas } from '@cloche/contract';
import type { Selectable } from 'kysely';
import { timestamp } from '../base/clock.ts';
import type { ProjectTable } from '../db/tables/organization-tables.ts';

/** Times are milliseconds since the epoch. */
export interface ProjectRecord {
  readonly id: ProjectId;
  readonly orgId: OrgId;
  readonly name: string;
  readonly isDefault: boolean;
  readonly metadata: Metadata;
  readonly quotas: ProjectQuotas;
  readonly createdAt: number;
  readonly updatedAt: number;
  readonly deletedAt: number | undefined;
}

/** Returns the form in which names are compared: without upper and lower case, and in one Unicode form. */
export function nameKey(name: string): string {
  // Upper case first, because some letters have several lower-case forms.
  return name.normalize('NFC').toUpperCase().toLowerCase().normalize('NFC');
}

export function toProject(record: ProjectRecord): Project {
  return {
    id: record.id,
    orgId: record.orgId,
    name: record.name,
    isDefault: record.isDefault,
    metadata: record.metadata,
    quotas: record.quotas,
    createdAt: timestamp(record.createdAt),
    updatedAt: timestamp(record.updatedAt),
    ...(record.deletedAt === undefined ? {} : { deletedAt: timestamp(record.deletedAt) }),
  };
}

/** Converts a row. The casts are sound because only the service writes these columns. */
export function toRecord(row: Selectable<ProjectTable>): ProjectRecord {
  return {
    id: row.id as ProjectId,
    orgId: row.org_id as OrgId,
    name: row.name,
    isDefault: row.is_default === 1,
    metadata: JSON.parse(row.metadata),
    quotas: JSON.parse(row.quotas),
    createdAt: row.created_at,
    updatedAt: row.updated_at,
    deletedAt: row.deleted_at ?? undefined,
  };
}
