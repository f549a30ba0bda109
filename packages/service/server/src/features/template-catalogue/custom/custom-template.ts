/** Templates that organizations build, and their versions. */
import type {
  OrgId,
  Template,
  TemplateBuildId,
  TemplateId,
  TemplateVersion,
  TemplateVersionId,
} from '@cloche/contract';
import type { CapturedManifest } from '@cloche/protocol';
import type { Selectable } from 'kysely';
import { AppError } from '../../../platform/base/app-error.ts';
import { timestamp } from '../../../platform/base/clock.ts';
import type { CustomTemplateTable, CustomTemplateVersionTable } from '../../../platform/db/tables/template-tables.ts';
import type { TemplateVersionRecord } from '../template.ts';

/** Times are milliseconds since the epoch. */
export interface CustomTemplateRecord {
  readonly id: TemplateId;
  readonly orgId: OrgId;
  readonly slug: string;
  readonly description: string;
  readonly languages: readonly string[];
  readonly defaultVersionId: TemplateVersionId | undefined;
  readonly createdAt: number;
  readonly deletedAt: number | undefined;
}

export interface CustomVersionRecord extends TemplateVersionRecord {
  readonly orgId: OrgId;
  readonly buildId: TemplateBuildId;
  readonly fromVersionId: TemplateVersionId;
  readonly languages: readonly string[];
  /** The manifest that the host has of it. */
  readonly manifest: CapturedManifest;
  /** Layers of the version, those of the versions below included. */
  readonly layers: number;
  readonly sizeBytes: number;
}

/** Converts a row. The casts are sound because only the server writes these columns. */
export function toCustomTemplate(row: Selectable<CustomTemplateTable>): CustomTemplateRecord {
  return {
    id: row.id as TemplateId,
    orgId: row.org_id as OrgId,
    slug: row.slug,
    description: row.description,
    languages: JSON.parse(row.languages),
    defaultVersionId: (row.default_version_id ?? undefined) as TemplateVersionId | undefined,
    createdAt: row.created_at,
    deletedAt: row.deleted_at ?? undefined,
  };
}

/** Converts a row. The casts are sound because only the server writes these columns. */
export function toCustomVersion(row: Selectable<CustomTemplateVersionTable>): CustomVersionRecord {
  const manifest: CapturedManifest = JSON.parse(row.manifest);
  return {
    id: row.id as TemplateVersionId,
    orgId: row.org_id as OrgId,
    templateId: row.template_id as TemplateId,
    buildId: row.build_id as TemplateBuildId,
    fromVersionId: row.from_version_id as TemplateVersionId,
    version: row.version,
    digest: row.digest,
    languages: manifest.languages,
    manifest,
    packages: JSON.parse(row.packages),
    resources: JSON.parse(row.resources),
    layers: row.layers,
    sizeBytes: row.size_bytes,
    builtAt: row.built_at,
  };
}

/** Returns the template as clients see it. `latest` is its newest version, if it has one. */
export function toOwnTemplate(record: CustomTemplateRecord, latest: TemplateVersionRecord | undefined): Template {
  return {
    id: record.id,
    orgId: record.orgId,
    slug: record.slug,
    description: record.description,
    languages: [...record.languages],
    ...(latest && { latestVersion: latest.version, latestVersionId: latest.id }),
    ...(record.defaultVersionId === undefined ? {} : { defaultVersionId: record.defaultVersionId }),
    createdAt: timestamp(record.createdAt),
    ...(record.deletedAt === undefined ? {} : { deletedAt: timestamp(record.deletedAt) }),
  };
}

export function toOwnVersion(template: CustomTemplateRecord, version: CustomVersionRecord): TemplateVersion {
  return {
    id: version.id,
    templateId: template.id,
    templateSlug: template.slug,
    version: version.version,
    digest: version.digest,
    packages: version.packages,
    buildId: version.buildId,
    fromVersionId: version.fromVersionId,
    ...(version.resources && Object.keys(version.resources).length > 0 ? { resources: version.resources } : {}),
    createdAt: timestamp(version.builtAt),
  };
}

export function deleted({ slug }: CustomTemplateRecord): AppError {
  return new AppError('not_found', `The template "${slug}" is deleted; create another one.`);
}
