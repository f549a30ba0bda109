import type { OrgId, PreviewId, PreviewVisibility, ProjectId, SandboxId } from '@cloche/contract';
import type { Selectable } from 'kysely';
import type { Database, PreviewTable } from '../db/database.ts';
import { Lookups } from '../db/lookups.ts';
import { prepareQuery } from '../db/prepared-query.ts';
import { LIVE_STATUSES } from '../sandboxes/record/sandbox.ts';
import type { PreviewRecord } from './preview.ts';

export interface NewPreview extends Omit<PreviewRecord, 'expiresAt' | 'deletedAt'> {
  /** Undefined: as long as its sandbox. */
  readonly expiresAt: number | undefined;
  readonly idempotencyRecordId: string | undefined;
}

export interface PreviewFilter {
  readonly orgId: OrgId;
  /** Undefined: every project of the organization. */
  readonly projectIds: readonly ProjectId[] | undefined;
  readonly sandboxId: SandboxId | undefined;
}

/** The records of previews. One is open until it is deleted, its time is up, or its sandbox has ended. */
export interface PreviewRepository {
  /**
   * Counts the open ones of the sandbox against `maxOpen` and inserts, in one atomic step. One that its idempotency
   * record has made before, in an attempt that was cut off, is deleted: nobody knows its token.
   */
  insert(preview: NewPreview, maxOpen: number): Promise<{ status: 'inserted' } | { status: 'full'; used: number }>;
  findOpen(id: string, now: number): Promise<PreviewRecord | undefined>;
  /** Also one that has ended. */
  find(id: string): Promise<PreviewRecord | undefined>;
  /** Open ones, newest first. */
  list(filter: PreviewFilter, now: number): Promise<PreviewRecord[]>;
  /** The first time stays. */
  markDeleted(id: PreviewId, at: number): Promise<void>;
}

export class SqlPreviewRepository implements PreviewRepository {
  readonly #db: Database;
  // Every request through a preview looks it up.
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
    // Of one that is remembered the time may be up since.
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

/** The casts are sound: nothing else writes these columns. */
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
