import type { ArtifactId, Metadata, OrgId, ProjectId, SandboxId, WorkspaceRunId } from '@cloche/contract';
import { type Selectable, sql } from 'kysely';
import { projectDeleted } from '../../platform/access/project-access.ts';
import type { Audited } from '../../platform/call/call.ts';
import type { Database } from '../../platform/db/database.ts';
import { laterThanAll } from '../../platform/db/later-than-all.ts';
import { type ListPart, NEWEST_FIRST, readPart, type Selection, selected } from '../../platform/db/list-part.ts';
import type { ArtifactTable } from '../../platform/db/tables/sandbox-tables.ts';
import type { Transaction, Transactions } from '../../platform/db/transactions.ts';
import type { EventOutbox } from '../../platform/outbox/event-outbox.ts';
import { isOpenProject } from '../../platform/tenancy/open-project.ts';
import { UsageHours } from '../metering/usage-hours.ts';
import { type ArtifactRecord, toArtifact } from './artifact.ts';

export interface ArtifactFilter extends Selection {
  readonly orgId: OrgId;
  /** Undefined means every project of the organization. */
  readonly projectIds: readonly ProjectId[] | undefined;
  readonly sandboxId: string | undefined;
  readonly workspaceRunId: string | undefined;
  readonly name: string | undefined;
}

/**
 * Stores artifact records. The records of deleted artifacts are kept; their contents are not. A change is one
 * transaction with its events; it joins `tx` if that is given.
 */
export interface ArtifactRepository {
  /**
   * Returns the stored artifact, or undefined when one was already created with the idempotency record.
   *
   * @throws AppError `not_found` when the project was deleted meanwhile
   */
  insert(record: ArtifactRecord, tx?: Transaction): Promise<ArtifactRecord | undefined>;
  /** Also finds deleted artifacts. */
  find(id: string): Promise<ArtifactRecord | undefined>;
  /** Also finds deleted artifacts. */
  findByIdempotencyRecord(recordId: string): Promise<ArtifactRecord | undefined>;
  /** Returns a part of the artifacts that are neither deleted nor expired, newest first. */
  list(filter: ArtifactFilter, now: number, part: ListPart): Promise<ArtifactRecord[]>;
  /** Returns undefined when the artifact is already deleted. */
  markDeleted(call: Audited, id: ArtifactId, at: number): Promise<ArtifactRecord | undefined>;
  listExpired(now: number): Promise<ArtifactRecord[]>;
  /** Returns whether an artifact of the same project that is not deleted has the same content. */
  hasContent(record: ArtifactRecord, tx: Transaction): Promise<boolean>;
  /** Returns whether an artifact of the project that is not deleted has this size. */
  hasSize(projectId: ProjectId, sizeBytes: number, tx: Transaction): Promise<boolean>;
  /** Returns whether an artifact that is not deleted, of the organization if one is given, uses this content. */
  isContentUsed(sha256: string, by?: { tx?: Transaction | undefined; orgId?: OrgId }): Promise<boolean>;
}

export class SqlArtifactRepository implements ArtifactRepository {
  readonly #db: Database;
  readonly #transactions: Transactions;
  readonly #outbox: EventOutbox;
  readonly #usageHours: UsageHours;

  constructor(db: Database, transactions: Transactions, outbox: EventOutbox) {
    this.#db = db;
    this.#transactions = transactions;
    this.#outbox = outbox;
    this.#usageHours = new UsageHours(db);
  }

  insert(record: ArtifactRecord, joined?: Transaction): Promise<ArtifactRecord | undefined> {
    const created_at = laterThanAll({ table: 'artifacts', list: 'org_id' }, record.orgId, record.createdAt);
    return this.#transactions.run(async (tx) => {
      if (!(await isOpenProject(tx.db, record.projectId))) throw projectDeleted(record.projectId);
      const row = await tx.db
        .insertInto('artifacts')
        .values({ ...toRow(record), created_at })
        .onConflict((conflict) => conflict.doNothing())
        .returningAll()
        .executeTakeFirst();
      if (!row) return undefined;
      await this.#usageHours.add(tx, record, record.createdAt, { artifact_bytes: record.sizeBytes });
      return this.#announce(tx, 'artifact.created', toRecord(row));
    }, joined);
  }

  async find(id: string): Promise<ArtifactRecord | undefined> {
    const row = await this.#all().where('id', '=', id).executeTakeFirst();
    return row && toRecord(row);
  }

  async findByIdempotencyRecord(recordId: string): Promise<ArtifactRecord | undefined> {
    const row = await this.#all().where('idempotency_record_id', '=', recordId).executeTakeFirst();
    return row && toRecord(row);
  }

  async list(
    { orgId, sandboxId, workspaceRunId, name, ...selection }: ArtifactFilter,
    now: number,
    part: ListPart,
  ): Promise<ArtifactRecord[]> {
    let query = this.#all().where('org_id', '=', orgId).where('deleted_at', 'is', null);
    if (sandboxId !== undefined) query = query.where('sandbox_id', '=', sandboxId);
    if (workspaceRunId !== undefined) query = query.where('workspace_run_id', '=', workspaceRunId);
    const rare = selected(this.#db, selection, 'artifacts');
    rare.push(sql<boolean>`(expires_at is null or expires_at > ${now})`);
    if (name !== undefined) rare.push(sql<boolean>`name = ${name}`);
    return (await readPart(query, NEWEST_FIRST, part, rare)).map(toRecord);
  }

  markDeleted({ audit }: Audited, id: ArtifactId, at: number): Promise<ArtifactRecord | undefined> {
    return this.#transactions.run(async (tx) => {
      const query = tx.db.updateTable('artifacts').set({ deleted_at: at }).where('id', '=', id);
      const row = await query.where('deleted_at', 'is', null).returningAll().executeTakeFirst();
      if (!row) return undefined;
      const deleted = await this.#announce(tx, 'artifact.deleted', toRecord(row));
      await audit?.append(tx, deleted);
      return deleted;
    });
  }

  async listExpired(now: number): Promise<ArtifactRecord[]> {
    const rows = await this.#all().where('deleted_at', 'is', null).where('expires_at', '<=', now).execute();
    return rows.map(toRecord);
  }

  async hasContent({ projectId, sha256 }: ArtifactRecord, { db }: Transaction): Promise<boolean> {
    const query = db.selectFrom('artifacts').select('id').where('sha256', '=', sha256);
    const kept = query.where('project_id', '=', projectId).where('deleted_at', 'is', null);
    return (await kept.limit(1).executeTakeFirst()) !== undefined;
  }

  async hasSize(projectId: ProjectId, sizeBytes: number, { db }: Transaction): Promise<boolean> {
    const query = db.selectFrom('artifacts').select('id').where('project_id', '=', projectId);
    const kept = query.where('size_bytes', '=', sizeBytes).where('deleted_at', 'is', null);
    return (await kept.limit(1).executeTakeFirst()) !== undefined;
  }

  async isContentUsed(
    sha256: string,
    { tx, orgId }: { tx?: Transaction | undefined; orgId?: OrgId } = {},
  ): Promise<boolean> {
    let query = (tx?.db ?? this.#db).selectFrom('artifacts').select('id').where('sha256', '=', sha256);
    if (orgId !== undefined) query = query.where('org_id', '=', orgId);
    return (await query.where('deleted_at', 'is', null).limit(1).executeTakeFirst()) !== undefined;
  }

  async #announce(
    tx: Transaction,
    type: 'artifact.created' | 'artifact.deleted',
    record: ArtifactRecord,
  ): Promise<ArtifactRecord> {
    const { orgId, projectId } = record;
    await this.#outbox.append(tx, { type, orgId, projectId, data: { artifact: toArtifact(record) } });
    return record;
  }

  #all() {
    return this.#db.selectFrom('artifacts').selectAll();
  }
}

function toRow(record: ArtifactRecord) {
  return {
    id: record.id,
    org_id: record.orgId,
    project_id: record.projectId,
    sandbox_id: record.sandboxId,
    workspace_run_id: record.workspaceRunId ?? null,
    name: record.name,
    path: record.path ?? null,
    content_type: record.contentType,
    size_bytes: record.sizeBytes,
    sha256: record.sha256,
    metadata: JSON.stringify(record.metadata),
    created_at: record.createdAt,
    expires_at: record.expiresAt ?? null,
    deleted_at: record.deletedAt ?? null,
    idempotency_record_id: record.idempotencyRecordId ?? null,
  };
}

/** Converts a row. The casts are sound because only this repository writes these columns. */
function toRecord(row: Selectable<ArtifactTable>): ArtifactRecord {
  return {
    id: row.id as ArtifactId,
    orgId: row.org_id as OrgId,
    projectId: row.project_id as ProjectId,
    sandboxId: row.sandbox_id as SandboxId,
    workspaceRunId: (row.workspace_run_id as WorkspaceRunId | null) ?? undefined,
    name: row.name,
    path: row.path ?? undefined,
    contentType: row.content_type,
    sizeBytes: row.size_bytes,
    sha256: row.sha256,
    metadata: JSON.parse(row.metadata) as Metadata,
    createdAt: row.created_at,
    expiresAt: row.expires_at ?? undefined,
    deletedAt: row.deleted_at ?? undefined,
    idempotencyRecordId: row.idempotency_record_id ?? undefined,
  };
}
