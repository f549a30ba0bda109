import {
  type OrgId,
  type ProjectId,
  UNFINISHED_RUN_STATUSES,
  type WorkspaceRunId,
  type WorkspaceRunStatus,
} from '@cloche/contract';
import { sql } from 'kysely';
import { projectDeleted } from '../../../platform/access/project-access.ts';
import type { Changes } from '../../../platform/base/changes.ts';
import { type Audited, UNAUDITED } from '../../../platform/call/call.ts';
import type { Database } from '../../../platform/db/database.ts';
import { laterThanAll } from '../../../platform/db/later-than-all.ts';
import { type ListPart, NEWEST_FIRST, readPart, type Selection, selected } from '../../../platform/db/list-part.ts';
import type { Transaction, Transactions } from '../../../platform/db/transactions.ts';
import type { EventOutbox } from '../../../platform/outbox/event-outbox.ts';
import type { SequenceLog } from '../../../platform/sequence-log/sequence-log.ts';
import { lockOrganization } from '../../../platform/tenancy/lock-organization.ts';
import { isOpenProject } from '../../../platform/tenancy/open-project.ts';
import { UsageHours } from '../../metering/usage-hours.ts';
import {
  allowsRun,
  isFinished,
  type RunTransitionName,
  runTransitionOf,
  toState,
  toWorkspaceRun,
  type WorkspaceRunRecord,
} from './workspace-run.ts';
import { type RunChange, toColumns, toRecord, toRow } from './workspace-run-row.ts';

export interface RunFilter extends Selection {
  readonly orgId: OrgId;
  /** Undefined means every project of the organization. */
  readonly projectIds: readonly ProjectId[] | undefined;
  readonly status: WorkspaceRunStatus | undefined;
}

export type RunInsertion =
  | { readonly status: 'inserted'; readonly record: WorkspaceRunRecord }
  /** A run already exists for the idempotency record. */
  | { readonly status: 'exists'; readonly record: WorkspaceRunRecord }
  | { readonly status: 'full'; readonly used: number };

export interface ChangeOptions {
  /** The request for the change. */
  readonly call?: Audited | undefined;
  /** Makes the change only if this claim holds the run. */
  readonly claim?: string | undefined;
  /** Joins this transaction. */
  readonly tx?: Transaction | undefined;
}

export interface WorkspaceRunRepositoryDeps {
  readonly db: Database;
  readonly transactions: Transactions;
  readonly outbox: EventOutbox;
  /** Gets an entry for each status. Closed when the run has finished. */
  readonly runLog: SequenceLog;
  /** Notified after the commit of each change. */
  readonly runChanges: Changes<WorkspaceRunId>;
}

/** Stores workspace runs. Appends the event of each status in the transaction of its change. */
export class WorkspaceRunRepository {
  readonly #deps: WorkspaceRunRepositoryDeps;
  readonly #usageHours: UsageHours;

  constructor(deps: WorkspaceRunRepositoryDeps) {
    this.#deps = deps;
    this.#usageHours = new UsageHours(deps.db);
  }

  /**
   * Inserts a run, unless the organization has `limit` unfinished ones.
   *
   * @throws AppError `not_found` when the project was deleted meanwhile
   */
  insert(call: Audited, record: WorkspaceRunRecord, limit: number): Promise<RunInsertion> {
    const { orgId, projectId, idempotencyRecordId } = record;
    return this.#deps.transactions.run(async (tx): Promise<RunInsertion> => {
      const { db } = tx;
      await lockOrganization(tx, orgId);
      if (!(await isOpenProject(db, projectId))) throw projectDeleted(projectId);
      const earlier = idempotencyRecordId && (await findByIdempotencyRecord(db, idempotencyRecordId));
      if (earlier) return { status: 'exists', record: earlier };
      const used = await countUnfinished(db, orgId);
      if (used >= limit) return { status: 'full', used };
      const created_at = laterThanAll({ table: 'workspace_runs', list: 'org_id' }, orgId, record.createdAt);
      const insert = db.insertInto('workspace_runs').values({ ...toRow(record), created_at });
      const inserted = toRecord(await insert.returningAll().executeTakeFirstOrThrow());
      await this.#announce(call, tx, inserted);
      return { status: 'inserted', record: inserted };
    });
  }

  async find(id: string): Promise<WorkspaceRunRecord | undefined> {
    const row = await this.#deps.db.selectFrom('workspace_runs').selectAll().where('id', '=', id).executeTakeFirst();
    return row && toRecord(row);
  }

  /** Returns a part of the runs, newest first. */
  async list({ orgId, status, ...selection }: RunFilter, part: ListPart): Promise<WorkspaceRunRecord[]> {
    const { db } = this.#deps;
    const query = db.selectFrom('workspace_runs').selectAll().where('org_id', '=', orgId);
    const rare = selected(db, selection, 'workspace_runs');
    if (status !== undefined) rare.push(sql<boolean>`status = ${status}`);
    return (await readPart(query, NEWEST_FIRST, part, rare)).map(toRecord);
  }

  /**
   * Changes the status if it is still that of `current`, and appends the event in the same transaction. Otherwise
   * returns undefined, and the caller must read the record again. A run with a `step` can be changed only with the
   * claim of its server.
   */
  async transition(
    current: WorkspaceRunRecord,
    name: RunTransitionName,
    change: RunChange,
    { call = UNAUDITED, claim, tx: joined }: ChangeOptions = {},
  ): Promise<WorkspaceRunRecord | undefined> {
    if (!allowsRun(name, current.status)) return undefined;
    return this.#deps.transactions.run(async (tx) => {
      const row = await tx.db
        .updateTable('workspace_runs')
        .set({ ...toColumns(change), status: runTransitionOf(name).to })
        .where('id', '=', current.id)
        .where('status', '=', current.status)
        .$if(claim === undefined, (query) => query.where('step', 'is', null))
        .$if(claim !== undefined, (query) => query.where('claimed_by', '=', claim ?? null))
        .returningAll()
        .executeTakeFirst();
      if (!row) return undefined;
      const record = toRecord(row);
      if (name === 'run') await this.#usageHours.add(tx, record, record.startedAt ?? 0, { workspace_runs: 1 });
      await this.#announce(call, tx, record);
      return record;
    }, joined);
  }

  /** Changes fields of a run, but not its status, while `claim` holds the run. Returns undefined if it does not. */
  async advance(id: WorkspaceRunId, change: RunChange, claim: string): Promise<WorkspaceRunRecord | undefined> {
    const row = await this.#deps.db
      .updateTable('workspace_runs')
      .set(toColumns(change))
      .where('id', '=', id)
      .where('claimed_by', '=', claim)
      .returningAll()
      .executeTakeFirst();
    return row && toRecord(row);
  }

  /**
   * Requests the cancellation of a run that a server is executing, or was executing when the server ended. Returns
   * undefined for any other run, and if the cancellation was requested before.
   */
  async requestCancel({ audit }: Audited, id: WorkspaceRunId, now: number): Promise<WorkspaceRunRecord | undefined> {
    return this.#deps.transactions.run(async (tx) => {
      const row = await tx.db
        .updateTable('workspace_runs')
        .set({ cancel_requested_at: now })
        .where('id', '=', id)
        .where('status', 'in', ['queued', 'running'])
        .where('step', 'is not', null)
        .where('cancel_requested_at', 'is', null)
        .returningAll()
        .executeTakeFirst();
      if (!row) return undefined;
      tx.afterCommit(() => this.#deps.runChanges.notify(id));
      const record = toRecord(row);
      await audit?.append(tx, record);
      return record;
    });
  }

  async #announce({ audit }: Audited, tx: Transaction, record: WorkspaceRunRecord): Promise<void> {
    const { id, orgId, projectId, status } = record;
    tx.afterCommit(() => this.#deps.runChanges.notify(id));
    const { runLog, outbox } = this.#deps;
    await runLog.append(id, [{ type: 'state', data: toState(record) }], { tx });
    if (isFinished(record)) await runLog.close(id, tx);
    const data = { workspaceRun: toWorkspaceRun(record) };
    await outbox.append(tx, { type: `workspace_run.${status}`, orgId, projectId, data });
    await audit?.append(tx, record);
  }
}

async function findByIdempotencyRecord(db: Database, recordId: string): Promise<WorkspaceRunRecord | undefined> {
  const query = db.selectFrom('workspace_runs').selectAll().where('idempotency_record_id', '=', recordId);
  const row = await query.executeTakeFirst();
  return row && toRecord(row);
}

async function countUnfinished(db: Database, orgId: OrgId): Promise<number> {
  const { used } = await db
    .selectFrom('workspace_runs')
    .select(({ fn }) => fn.countAll<number>().as('used'))
    .where('org_id', '=', orgId)
    .where('status', 'in', UNFINISHED_RUN_STATUSES)
    .executeTakeFirstOrThrow();
  return Number(used);
}
