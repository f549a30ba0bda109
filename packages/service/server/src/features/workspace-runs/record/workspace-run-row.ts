/** Conversion between records of workspace runs and rows of the database. */
import type { OrgId, ProjectId, SandboxId, TemplateVersionId, WorkspaceRunId } from '@cloche/contract';
import type { Insertable, Selectable } from 'kysely';
import type { WorkspaceRunTable } from '../../../platform/db/tables/workspace-run-tables.ts';
import type { WorkspaceRunRecord } from './workspace-run.ts';

/** Converts a new run, which no server has claimed yet. */
export function toRow(record: WorkspaceRunRecord): Insertable<WorkspaceRunTable> {
  return {
    id: record.id,
    org_id: record.orgId,
    project_id: record.projectId,
    status: record.status,
    settings: JSON.stringify(record.settings),
    template_version_id: record.templateVersionId,
    metadata: JSON.stringify(record.metadata),
    auto_start: Number(record.autoStart),
    attempt: record.attempt,
    archive_attempts: record.archiveAttempts,
    artifact_ids: JSON.stringify(record.artifactIds),
    created_at: record.createdAt,
    idempotency_record_id: record.idempotencyRecordId ?? null,
  };
}

export type RunChange = Partial<
  Pick<
    WorkspaceRunRecord,
    | 'archive'
    | 'attempt'
    | 'archiveAttempts'
    | 'sandboxId'
    | 'outcome'
    | 'artifactIds'
    | 'queuedAt'
    | 'startedAt'
    | 'cancelRequestedAt'
    | 'finishedAt'
    | 'startRecordId'
  >
> & {
  /** Null if nothing more is to be done for the run; the claim then ends. */
  readonly step?: WorkspaceRunTable['step'];
};

/** Returns the columns that a change sets. */
export function toColumns(change: RunChange): Partial<WorkspaceRunTable> {
  return {
    ...(change.archive === undefined ? {} : { archive: JSON.stringify(change.archive) }),
    ...(change.step === undefined ? {} : { step: change.step }),
    ...(change.step === null ? { claimed_by: null, claimed_until: null } : {}),
    ...(change.attempt === undefined ? {} : { attempt: change.attempt }),
    ...(change.archiveAttempts === undefined ? {} : { archive_attempts: change.archiveAttempts }),
    ...(change.sandboxId === undefined ? {} : { sandbox_id: change.sandboxId }),
    ...(change.outcome === undefined ? {} : { outcome: JSON.stringify(change.outcome) }),
    ...(change.artifactIds === undefined ? {} : { artifact_ids: JSON.stringify(change.artifactIds) }),
    ...(change.queuedAt === undefined ? {} : { queued_at: change.queuedAt }),
    ...(change.startedAt === undefined ? {} : { started_at: change.startedAt }),
    ...(change.cancelRequestedAt === undefined ? {} : { cancel_requested_at: change.cancelRequestedAt }),
    ...(change.finishedAt === undefined ? {} : { finished_at: change.finishedAt }),
    ...(change.startRecordId === undefined ? {} : { start_record_id: change.startRecordId }),
  };
}

/** Converts a row. The casts are sound because only the repository of workspace runs writes these columns. */
export function toRecord(row: Selectable<WorkspaceRunTable>): WorkspaceRunRecord {
  return {
    id: row.id as WorkspaceRunId,
    orgId: row.org_id as OrgId,
    projectId: row.project_id as ProjectId,
    status: row.status,
    settings: JSON.parse(row.settings),
    templateVersionId: row.template_version_id as TemplateVersionId,
    metadata: JSON.parse(row.metadata),
    autoStart: row.auto_start === 1,
    archive: row.archive === null ? undefined : JSON.parse(row.archive),
    step: row.step ?? undefined,
    attempt: row.attempt,
    archiveAttempts: row.archive_attempts,
    sandboxId: (row.sandbox_id as SandboxId | null) ?? undefined,
    outcome: row.outcome === null ? undefined : JSON.parse(row.outcome),
    artifactIds: JSON.parse(row.artifact_ids),
    createdAt: row.created_at,
    queuedAt: row.queued_at ?? undefined,
    startedAt: row.started_at ?? undefined,
    cancelRequestedAt: row.cancel_requested_at ?? undefined,
    finishedAt: row.finished_at ?? undefined,
    startRecordId: row.start_record_id ?? undefined,
    idempotencyRecordId: row.idempotency_record_id ?? undefined,
  };
}
