import type { ApiKeyId, OrgId, PreviewId, PreviewVisibility, ProjectId, SandboxId } from '@cloche/contract';
import { type Selectable, sql } from 'kysely';
import { projectDeleted } from '../../platform/access/project-access.ts';
import type { Audited, Call } from '../../platform/call/call.ts';
import type { Database } from '../../platform/db/database.ts';
import { laterThanAll } from '../../platform/db/later-than-all.ts';
import { type ListPart, readPart, selected } from '../../platform/db/list-part.ts';
import { Lookups } from '../../platform/db/lookups.ts';
import { prepareQuery } from '../../platform/db/prepared-query.ts';
import { locksRows } from '../../platform/db/row-locks.ts';
import type { PreviewTable } from '../../platform/db/tables/sandbox-tables.ts';
import type { Transaction, Transactions } from '../../platform/db/transactions.ts';
import type { EventOutbox } from '../../platform/outbox/event-outbox.ts';
import { isOpenProject } from '../../platform/tenancy/open-project.ts';
import { sandboxThat } from '../sandbox-status/status-facts.ts';
import { type PreviewRecord, toPreview } from './preview.ts';

const NEVER = Number.POSITIVE_INFINITY;

export interface NewPreview extends Omit<PreviewRecord, 'expiresAt' | 'deletedAt'> {
  /** Undefined means that the preview lives as long as its sandbox. */
  readonly expiresAt: number | undefined;
  readonly idempotencyRecordId: string | undefined;
}

export interface InsertOptions {
  /** Open previews that a sandbox may have. */
  readonly maxOpen: number;
  /** Throws unless quotas have room for one more preview. */
  readonly requireRoom: () => Promise<void>;
}

export type InsertResult = { readonly status: 'inserted' } | { readonly status: 'full'; readonly used: number };

export interface PreviewFilter {
  readonly orgId: OrgId;
  /** Undefined means every project of the organization. */
  readonly projectIds: readonly ProjectId[] | undefined;
  readonly sandboxId: SandboxId | undefined;
}

/**
 * Stores preview records. A preview is open until it is deleted, it expires, its sandbox ends, or the key that
 * created it ends. A change is one transaction with its events.
 */
export interface PreviewRepository {
  /**
   * Counts the sandbox's open previews against `maxOpen` and inserts, in one atomic step. Deletes a preview that an
   * interrupted attempt created with the same idempotency record, because its token is lost. Calls `requireRoom` in
   * between; what it throws undoes the deletion.
   */
  insert(
    call: Pick<Call, 'audit'>,
    preview: NewPreview,
    options: InsertOptions,
    tx?: Transaction,
  ): Promise<InsertResult>;
  findOpen(id: string, now: number): Promise<PreviewRecord | undefined>;
  /** Also finds previews that have ended. */
  find(id: string): Promise<PreviewRecord | undefined>;
  /** Returns a part of the open previews, newest first. */
  list(filter: PreviewFilter, now: number, part: ListPart): Promise<PreviewRecord[]>;
  /** Marks a preview as deleted; the first time is kept. */
  markDeleted(call: Audited, id: PreviewId, at: number): Promise<void>;
}

export interface SqlPreviewRepositoryDeps {
  readonly db: Database;
  readonly transactions: Transactions;
  readonly outbox: EventOutbox;
  readonly urlOf: (id: PreviewId) => string;
}

const ORDER = { by: 'previews.created_at', id: 'previews.id', direction: 'desc' } as const;

export class SqlPreviewRepository implements PreviewRepository {
  readonly #deps: SqlPreviewRepositoryDeps;
  readonly #db: Database;
  // Prepared, because every request through a preview looks it up.
  readonly #findOpen;
  readonly #found: Lookups<PreviewRecord>;

  constructor(deps: SqlPreviewRepositoryDeps) {
    const { db } = deps;
    this.#deps = deps;
    this.#db = db;
    this.#found = new Lookups(db, ['previews', 'sandboxes', 'api_keys']);
    this.#findOpen = prepareQuery(db, ({ id, now }: { id: string; now: number }) =>
      this.#open(now).where('previews.id', '=', id),
    );
  }

  async insert(
    { audit }: Pick<Call, 'audit'>,
    preview: NewPreview,
    { maxOpen, requireRoom }: InsertOptions,
    joined?: Transaction,
  ): Promise<InsertResult> {
    return this.#deps.transactions.run(async (tx) => {
      if (!(await isOpenProject(tx.db, preview.projectId))) throw projectDeleted(preview.projectId);
      const replaced = await markReplaced(tx, preview);
      await requireRoom();
      // Makes other previews of the sandbox wait, so that the count stays true.
      if (locksRows(tx.db))
        await tx.db.selectFrom('sandboxes').select('id').where('id', '=', preview.sandboxId).forNoKeyUpdate().execute();
      const { used } = await tx.db
        .selectFrom('previews')
        .select(({ fn }) => fn.countAll<number>().as('used'))
        .where('sandbox_id', '=', preview.sandboxId)
        .where('deleted_at', 'is', null)
        .where((where) => where.or([where('expires_at', 'is', null), where('expires_at', '>', preview.createdAt)]))
        .executeTakeFirstOrThrow();
      if (Number(used) >= maxOpen) return { status: 'full', used: Number(used) };
      const createdAt = laterThanAll({ table: 'previews', list: 'org_id' }, preview.orgId, preview.createdAt);
      await tx.db
        .insertInto('previews')
        .values({ ...toRow(preview), created_at: createdAt })
        .execute();
      for (const id of replaced) await this.#announce(tx, 'preview.deleted', id);
      await this.#announce(tx, 'preview.created', preview.id);
      const { projectId } = preview;
      for (const id of replaced) await audit?.appendFurther(tx, 'preview.deleted', { id, projectId });
      await audit?.append(tx, preview);
      return { status: 'inserted' };
    }, joined);
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
    return this.#findIn(this.#db, id);
  }

  async list({ orgId, projectIds, sandboxId }: PreviewFilter, now: number, part: ListPart): Promise<PreviewRecord[]> {
    let query = this.#all().where('previews.org_id', '=', orgId).where('previews.deleted_at', 'is', null);
    if (sandboxId) query = query.where('previews.sandbox_id', '=', sandboxId);
    const rare = [isReachable(now), ...selected(this.#db, { projectIds }, 'previews')];
    return (await readPart(query, ORDER, part, rare)).map(toRecord);
  }

  async markDeleted({ audit }: Audited, id: PreviewId, at: number): Promise<void> {
    await this.#deps.transactions.run(async (tx) => {
      const query = tx.db.updateTable('previews').set({ deleted_at: at }).where('id', '=', id);
      const deleted = await query.where('deleted_at', 'is', null).returning('id').executeTakeFirst();
      if (!deleted) return;
      await audit?.append(tx, await this.#announce(tx, 'preview.deleted', id));
    });
  }

  async #announce(tx: Transaction, type: 'preview.created' | 'preview.deleted', id: PreviewId): Promise<PreviewRecord> {
    const record = await this.#findIn(tx.db, id);
    if (!record) throw new Error(`the record of preview ${id} is gone`);
    const { orgId, projectId } = record;
    const preview = toPreview(record, this.#deps.urlOf(id));
    await this.#deps.outbox.append(tx, { type, orgId, projectId, data: { preview } });
    return record;
  }

  async #findIn(db: Database, id: string): Promise<PreviewRecord | undefined> {
    const row = await this.#all(db).where('previews.id', '=', id).executeTakeFirst();
    return row && toRecord(row);
  }

  #open(now: number) {
    return this.#all().where('previews.deleted_at', 'is', null).where(isReachable(now));
  }

  #all(db = this.#db) {
    return db
      .selectFrom('previews')
      .innerJoin('sandboxes', 'sandboxes.id', 'previews.sandbox_id')
      .leftJoin('api_keys', 'api_keys.id', 'previews.api_key_id')
      .selectAll('previews')
      .select(['sandboxes.expires_at as sandbox_expires_at', 'api_keys.expires_at as key_expires_at']);
  }
}

/** Returns the condition that neither a preview nor its sandbox nor the key that made it has ended. */
function isReachable(now: number) {
  return sql<boolean>`(
    ${sandboxThat('acceptsWork')} and sandboxes.expires_at > ${now} and api_keys.revoked_at is null
    and (api_keys.expires_at is null or api_keys.expires_at > ${now})
    and (previews.expires_at is null or previews.expires_at > ${now}))`;
}

/** Deletes previews that interrupted attempts of the same request left. Returns their ids. */
async function markReplaced({ db }: Transaction, { idempotencyRecordId, createdAt }: NewPreview): Promise<PreviewId[]> {
  if (idempotencyRecordId === undefined) return [];
  const query = db.updateTable('previews').set({ deleted_at: createdAt });
  const ofRequest = query.where('idempotency_record_id', '=', idempotencyRecordId).where('deleted_at', 'is', null);
  return (await ofRequest.returning('id').execute()).map(({ id }) => id as PreviewId);
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
    api_key_id: preview.apiKeyId ?? null,
    created_at: preview.createdAt,
    expires_at: preview.expiresAt ?? null,
    deleted_at: null,
    idempotency_record_id: preview.idempotencyRecordId ?? null,
  };
}

type Row = Selectable<PreviewTable> & { sandbox_expires_at: number; key_expires_at: number | null };

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
    apiKeyId: (row.api_key_id ?? undefined) as ApiKeyId | undefined,
    createdAt: row.created_at,
    expiresAt: Math.min(row.expires_at ?? NEVER, row.sandbox_expires_at, row.key_expires_at ?? NEVER),
    deletedAt: row.deleted_at ?? undefined,
  };
}
