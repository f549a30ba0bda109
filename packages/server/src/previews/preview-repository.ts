import type { OrgId, PreviewId, PreviewVisibility, ProjectId, SandboxId } from '@cloche/contract';
import type { Selectable } from 'kysely';
import type { Database, PreviewTable } from '../db/database.ts';
import { Lookups } from '../db/lookups.ts';
import { prepareQuery } from '../db/prepared-query.ts';
import { LIVE_STATUSES } from '../sandboxes/record/sandbox.ts';
import type { PreviewRecord } from './preview.ts';

export interface NewPreview extends Omit<PreviewRecord, 'expiresAt' | 'deletedAt'> {
  /** Undefined means that the preview lives as long as its sandbox. */
  readonly expiresAt: number | undefined;
  readonly idempotencyRecordId: string | undefined;
}

export interface PreviewFilter {
  readonly orgId: OrgId;
  /** Undefined means every project of the organization. */
  readonly projectIds: readonly ProjectId[] | undefined;
  readonly sandboxId: SandboxId | undefined;
}

/** Stores preview records. A preview is open until it is deleted, it expires or its sandbox ends. */
export interface PreviewRepository {
  /**
   * Counts the sandbox's open previews against `maxOpen` and inserts, in one atomic step. Deletes a preview that an
   * interrupted attempt created with the same idempotency record, because its token is lost.
   */
  insert(preview: NewPreview, maxOpen: number): Promise<{ status: 'inserted' } | { status: 'full'; used: number }>;
  findOpen(id: string, now: number): Promise<PreviewRecord | undefined>;
  /** Also finds previews that have ended. */
  find(id: string): Promise<PreviewRecord | undefined>;
  /** Returns open previews, newest first. */
  list(filter: PreviewFilter, now: number): Promise<PreviewRecord[]>;
  /** Marks a preview as deleted; the first time is kept. */
  markDeleted(id: PreviewId, at: number): Promise<void>;
}

export class SqlPreviewRepository implements PreviewRepository {
  readonly #db: Database;
  // Prepared, because every request through a preview looks it up.
  readonly #findOpen;
  readonly #found: Lookups<PreviewRecord>;

  constructor(db: Database) {
    this.#db = db;
    this.#found = new Lookups(db, ['previews', 'sandboxes']);
    this.#findOpen = prepareQuery(db, ({ id, now }: { id: string; now: number }) =>
      this.#open(now).where('previews.id', '=', id),
    );
  }

  async insert(
    preview: NewPreview,
    maxOpen: number,
  ): Promise<{ status: 'inserted' } | { status: 'full'; used: number }> {
    return this.#db.transaction().execute(async (trx) => {
      if (preview.idempotencyRecordId !== undefined) {
        await trx
          .updateTable('previews')
          .set({ deleted_at: preview.createdAt })
          .where('idempotency_record_id', '=', preview.idempotencyRecordId)
          .where('deleted_at', 'is', null)
          .execute();
      }
      const { used } = await trx
        .selectFrom('previews')
        .select(({ fn }) => fn.countAll<number>().as('used'))
        .where('sandbox_id', '=', preview.sandboxId)
        .where('deleted_at', 'is', null)
        .where((where) => where.or([where('expires_at', 'is', null), where('expires_at', '>', preview.createdAt)]))
        .executeTakeFirstOrThrow();
      if (Number(used) >= maxOpen) return { status: 'full', used: Number(used) };
      await trx.insertInto('previews').values(toRow(preview)).execute();
      return { status: 'inserted' };
    });
  }

  async findOpen(id: string, now: number): Promise<PreviewRecord | undefined> {
    const record = await this.#found.find(id, async () => {
      const [row] = (await this.#findOpen({ id, now })).rows;
      return row && toRecord(row);
    });
    // A cached record may have expired since it was read.
    return record && record.expiresAt > now ? record : undefined;
  }

  async find(id: string): Promise<PreviewRecord | undefined> {
    const row = await this.#all().where('previews.id', '=', id).executeTakeFirst();
    return row && toRecord(row);
  }

  async list({ orgId, projectIds, sandboxId }: PreviewFilter, now: number): Promise<PreviewRecord[]> {
    let query = this.#open(now).where('previews.org_id', '=', orgId);
    if (projectIds) query = query.where('previews.project_id', 'in', projectIds);
    if (sandboxId) query = query.where('previews.sandbox_id', '=', sandboxId);
    const rows = await query.orderBy('previews.created_at', 'desc').orderBy('previews.id', 'desc').execute();
    return rows.map(toRecord);
  }

  async markDeleted(id: PreviewId, at: number): Promise<void> {
    const query = this.#db.updateTable('previews').set({ deleted_at: at }).where('id', '=', id);
    await query.where('deleted_at', 'is', null).execute();
  }

  #open(now: number) {
    return this.#all()
      .where('previews.deleted_at', 'is', null)
      .where('sandboxes.status', 'in', LIVE_STATUSES)
      .where('sandboxes.expires_at', '>', now)
      .where((where) => where.or([where('previews.expires_at', 'is', null), where('previews.expires_at', '>', now)]));
  }

  #all() {
    return this.#db
      .selectFrom('previews')
      .innerJoin('sandboxes', 'sandboxes.id', 'previews.sandbox_id')
      .selectAll('previews')
      .select('sandboxes.expires_at as sandbox_expires_at');
  }
}

function toRow(preview: NewPreview) {
  return {
    id: preview.id,
    org_id: preview.orgId,
    project_id: preview.projectId,
    sandbox_id: preview.sandboxId,
    port: preview.port,
    visibility: preview.visibility,
    token_hash: preview.tokenHash ?? null,
    created_at: preview.createdAt,
    expires_at: preview.expiresAt ?? null,
    deleted_at: null,
    idempotency_record_id: preview.idempotencyRecordId ?? null,
  };
}

type Row = Selectable<PreviewTable> & { sandbox_expires_at: number };

/** Converts a row. The casts are sound because only this repository writes these columns. */
function toRecord(row: Row): PreviewRecord {
  return {
    id: row.id as PreviewId,
    orgId: row.org_id as OrgId,
    projectId: row.project_id as ProjectId,
    sandboxId: row.sandbox_id as SandboxId,
    port: row.port,
    visibility: row.visibility as PreviewVisibility,
    tokenHash: row.token_hash ?? undefined,
    createdAt: row.created_at,
    expiresAt: Math.min(row.expires_at ?? Number.POSITIVE_INFINITY, row.sandbox_expires_at),
    deletedAt: row.deleted_at ?? undefined,
  };
}
