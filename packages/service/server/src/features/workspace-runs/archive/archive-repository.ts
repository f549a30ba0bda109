import type { OrgId, WorkspaceArchiveFormat, WorkspaceRunId } from '@cloche/contract';
import type { Selectable } from 'kysely';
import type { Database } from '../../../platform/db/database.ts';
import type { WorkspaceArchiveTable } from '../../../platform/db/tables/workspace-run-tables.ts';
import type { Transaction, Transactions } from '../../../platform/db/transactions.ts';
import { lockOrganization } from '../../../platform/tenancy/lock-organization.ts';

/** An archive that is stored, is being uploaded, or is about to be removed. Times are milliseconds since the epoch. */
export interface ArchiveRecord {
  /** Name of the content in the store. */
  readonly id: string;
  readonly orgId: OrgId;
  readonly runId: WorkspaceRunId;
  readonly isTransfer: boolean;
  readonly format: WorkspaceArchiveFormat;
  readonly sizeBytes: number;
  readonly sha256: string;
  readonly createdAt: number;
  /** Time at which an unfinished upload is discarded. */
  readonly expiresAt: number;
}

/**
 * `overtaken` means that the run got an archive with other bytes after the request came; `given_up` that the upload was
 * discarded.
 */
export type Attachment = 'current' | 'overtaken' | 'given_up';

export type Reservation = { readonly status: 'reserved' } | { readonly status: 'full'; readonly used: number };

/**
 * Stores which archives exist. Every content in the store has a row from before it is written until after it is
 * removed, so that a killed server leaves no content without an owner.
 */
export class ArchiveRepository {
  readonly #db: Database;
  readonly #transactions: Transactions;

  constructor(db: Database, transactions: Transactions) {
    this.#db = db;
    this.#transactions = transactions;
  }

  /**
   * Inserts an archive that is about to be uploaded, unless those of its organization would exceed `limitBytes`.
   *
   * @param announce appends the audit event of the request
   */
  reserve(
    archive: ArchiveRecord,
    limitBytes: number,
    announce?: (tx: Transaction) => Promise<void>,
  ): Promise<Reservation> {
    const { orgId, runId, isTransfer, sizeBytes } = archive;
    return this.#transactions.run(async (tx): Promise<Reservation> => {
      const { db } = tx;
      await lockOrganization(tx, orgId);
      if (isTransfer) await discardReceiving(db, { runId, isTransfer });
      const used = await usedBytes(db, orgId);
      if (used + sizeBytes > limitBytes) return { status: 'full', used };
      await db.insertInto('workspace_archives').values(toRow(archive)).execute();
      await announce?.(tx);
      return { status: 'reserved' };
    });
  }

  /** Returns the archive with this id that is being uploaded by a signed URL. */
  async findTransfer(id: string, now: number): Promise<ArchiveRecord | undefined> {
    const row = await this.#transfers(now).where('id', '=', id).executeTakeFirst();
    return row && toRecord(row);
  }

  /** Returns the archive that is being uploaded by a signed URL for a run. */
  async findTransferOf(runId: WorkspaceRunId, now: number): Promise<ArchiveRecord | undefined> {
    const row = await this.#transfers(now).where('run_id', '=', runId).executeTakeFirst();
    return row && toRecord(row);
  }

  /** Returns the archive that a run has. */
  async findCurrent(runId: WorkspaceRunId, tx?: Transaction): Promise<ArchiveRecord | undefined> {
    const db = tx?.db ?? this.#db;
    const query = db.selectFrom('workspace_archives').selectAll().where('run_id', '=', runId);
    const row = await query.where('state', '=', 'current').executeTakeFirst();
    return row && toRecord(row);
  }

  /**
   * Makes an uploaded archive the current one of its run, and discards the previous one. The caller has locked the run
   * in the transaction, and rolls it back unless this returns `current`.
   *
   * @param replaced id of the archive that the run had when the request came, so that a request that was slow does not
   * replace the archive of a later one
   */
  async makeCurrent(
    { id, runId, sha256 }: ArchiveRecord,
    replaced: string | undefined,
    tx: Transaction,
  ): Promise<Attachment> {
    const previous = await this.findCurrent(runId, tx);
    if (previous && previous.id !== replaced && previous.sha256 !== sha256) return 'overtaken';
    const archives = tx.db.updateTable('workspace_archives');
    await archives.set({ state: 'discarded' }).where('run_id', '=', runId).where('state', '=', 'current').execute();
    const { numUpdatedRows } = await archives
      .set({ state: 'current' })
      .where('id', '=', id)
      .where('state', '=', 'receiving')
      .executeTakeFirst();
    return numUpdatedRows > 0n ? 'current' : 'given_up';
  }

  /**
   * Discards an upload that failed. Returns false if a run has the archive: then the upload has succeeded, and only the
   * answer of the database was lost.
   */
  async discard(id: string): Promise<boolean> {
    await discardReceiving(this.#db, { id });
    const current = this.#db.selectFrom('workspace_archives').select('id').where('id', '=', id);
    return (await current.where('state', '=', 'current').executeTakeFirst()) === undefined;
  }

  /**
   * Discards uploads that were given up before `receivedBefore`, and archives of runs that ended before `endedBefore`.
   */
  async discardEnded(receivedBefore: number, endedBefore: number): Promise<void> {
    const archives = this.#db.updateTable('workspace_archives').set({ state: 'discarded' });
    await archives.where('state', '=', 'receiving').where('expires_at', '<=', receivedBefore).execute();
    await archives
      .where('state', '=', 'current')
      .where(({ not, exists, selectFrom }) =>
        not(
          exists(
            selectFrom('workspace_runs')
              .select('workspace_runs.id')
              .whereRef('workspace_runs.id', '=', 'workspace_archives.run_id')
              .where((run) => run.or([run('finished_at', 'is', null), run('finished_at', '>', endedBefore)])),
          ),
        ),
      )
      .execute();
  }

  /** Returns the ids, in their order, of archives whose contents are to be removed. */
  async listDiscarded(limit: number, after = ''): Promise<string[]> {
    const query = this.#db.selectFrom('workspace_archives').select('id').where('state', '=', 'discarded');
    return (await query.where('id', '>', after).orderBy('id').limit(limit).execute()).map(({ id }) => id);
  }

  /** Returns whether the content with this name has an owner. */
  async isOwned(id: string): Promise<boolean> {
    const query = this.#db.selectFrom('workspace_archives').select('id').where('id', '=', id);
    return (await query.executeTakeFirst()) !== undefined;
  }

  /** Deletes the row of a discarded archive. Call it after its content was removed. */
  async delete(id: string): Promise<void> {
    await this.#db.deleteFrom('workspace_archives').where('id', '=', id).where('state', '=', 'discarded').execute();
  }

  #transfers(now: number) {
    const query = this.#db.selectFrom('workspace_archives').selectAll().where('is_transfer', '=', 1);
    return query.where('state', '=', 'receiving').where('expires_at', '>', now);
  }
}

async function discardReceiving(
  db: Database,
  which: { id: string } | { runId: WorkspaceRunId; isTransfer: boolean },
): Promise<void> {
  const query = db.updateTable('workspace_archives').set({ state: 'discarded' }).where('state', '=', 'receiving');
  const chosen =
    'id' in which
      ? query.where('id', '=', which.id)
      : query.where('run_id', '=', which.runId).where('is_transfer', '=', Number(which.isTransfer));
  await chosen.execute();
}

async function usedBytes(db: Database, orgId: OrgId): Promise<number> {
  const { used } = await db
    .selectFrom('workspace_archives')
    .select(({ fn }) => fn.sum<number | null>('size_bytes').as('used'))
    .where('org_id', '=', orgId)
    .where('state', '!=', 'discarded')
    .executeTakeFirstOrThrow();
  return Number(used ?? 0);
}

function toRow({ orgId, runId, isTransfer, sizeBytes, createdAt, expiresAt, ...rest }: ArchiveRecord) {
  return {
    ...rest,
    org_id: orgId,
    run_id: runId,
    state: 'receiving' as const,
    is_transfer: Number(isTransfer),
    size_bytes: sizeBytes,
    created_at: createdAt,
    expires_at: expiresAt,
  };
}

function toRecord(row: Selectable<WorkspaceArchiveTable>): ArchiveRecord {
  return {
    id: row.id,
    orgId: row.org_id as OrgId,
    runId: row.run_id as WorkspaceRunId,
    isTransfer: row.is_transfer === 1,
    format: row.format,
    sizeBytes: row.size_bytes,
    sha256: row.sha256,
    createdAt: row.created_at,
    expiresAt: row.expires_at,
  };
}
