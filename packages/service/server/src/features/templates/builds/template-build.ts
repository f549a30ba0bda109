/** The record of a build. */
import type {
  OrgId,
  SandboxId,
  TemplateBuild,
  TemplateBuildErrorCode,
  TemplateBuildId,
  TemplateBuildStatus,
  TemplateId,
  TemplateStepStatus,
  TemplateVersionId,
} from '@cloche/contract';
import type { Selectable } from 'kysely';
import { timestamp } from '../../../platform/base/clock.ts';
import type { TemplateBuildTable } from '../../../platform/db/tables/template-tables.ts';

/** Statuses of a build that has not ended. An ended build keeps its steps and loses its plan. */
export const UNFINISHED = ['queued', 'running'] as const satisfies readonly TemplateBuildStatus[];

export interface StepState {
  readonly description: string;
  readonly status: TemplateStepStatus;
}

/** Why a build failed. `step` is the number of the step, from 1. */
export interface BuildFailure {
  readonly code: TemplateBuildErrorCode;
  readonly message: string;
  readonly step?: number;
}

/** Times are milliseconds since the epoch. */
export interface BuildRecord {
  readonly id: TemplateBuildId;
  readonly orgId: OrgId;
  readonly templateId: TemplateId;
  readonly templateSlug: string;
  readonly status: TemplateBuildStatus;
  readonly fromVersionId: TemplateVersionId;
  readonly steps: readonly StepState[];
  /** Sandboxes that were created for it, one after the other. */
  readonly launches: number;
  /** Times that the service failed and began it again. */
  readonly failures: number;
  readonly sandboxId: SandboxId | undefined;
  readonly templateVersionId: TemplateVersionId | undefined;
  readonly error: BuildFailure | undefined;
  readonly createdAt: number;
  readonly startedAt: number | undefined;
  readonly finishedAt: number | undefined;
}

export function isFinished({ status }: BuildRecord): boolean {
  return !(UNFINISHED as readonly TemplateBuildStatus[]).includes(status);
}

/** Returns the build as clients see it. */
export function toBuild(record: BuildRecord): TemplateBuild {
  return {
    id: record.id,
    orgId: record.orgId,
    templateId: record.templateId,
    templateSlug: record.templateSlug,
    status: record.status,
    fromVersionId: record.fromVersionId,
    steps: record.steps.map((step) => ({ ...step })),
    ...(record.sandboxId === undefined ? {} : { sandboxId: record.sandboxId }),
    ...(record.templateVersionId === undefined ? {} : { templateVersionId: record.templateVersionId }),
    ...(record.error && { error: { ...record.error } }),
    createdAt: timestamp(record.createdAt),
    ...(record.startedAt === undefined ? {} : { startedAt: timestamp(record.startedAt) }),
    ...(record.finishedAt === undefined ? {} : { finishedAt: timestamp(record.finishedAt) }),
  };
}

/** Columns of a build without its plan, which may have megabytes. */
export const BUILD_COLUMNS = [
  'id',
  'org_id',
  'template_id',
  'template_slug',
  'status',
  'from_version_id',
  'steps',
  'launches',
  'failures',
  'sandbox_id',
  'template_version_id',
  'error',
  'created_at',
  'started_at',
  'finished_at',
] as const satisfies readonly (keyof TemplateBuildTable)[];

/** Converts a row. The casts are sound because only the server writes these columns. */
export function toBuildRecord(row: Pick<Selectable<TemplateBuildTable>, (typeof BUILD_COLUMNS)[number]>): BuildRecord {
  return {
    id: row.id as TemplateBuildId,
    orgId: row.org_id as OrgId,
    templateId: row.template_id as TemplateId,
    templateSlug: row.template_slug,
    status: row.status as TemplateBuildStatus,
    fromVersionId: row.from_version_id as TemplateVersionId,
    steps: JSON.parse(row.steps),
    launches: row.launches,
    failures: row.failures,
    sandboxId: (row.sandbox_id ?? undefined) as SandboxId | undefined,
    templateVersionId: (row.template_version_id ?? undefined) as TemplateVersionId | undefined,
    error: row.error === null ? undefined : JSON.parse(row.error),
    createdAt: row.created_at,
    startedAt: row.started_at ?? undefined,
    finishedAt: row.finished_at ?? undefined,
  };
}
