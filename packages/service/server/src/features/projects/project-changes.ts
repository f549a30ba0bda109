import {
  type Metadata,
  type OrgId,
  type ProjectId,
  type ProjectQuotas,
  UNFINISHED_RUN_STATUSES,
} from '@cloche/contract';
import type { Clock } from '../../platform/base/clock.ts';
import type { Audited } from '../../platform/call/call.ts';
import type { Database } from '../../platform/db/database.ts';
import { laterThanAll } from '../../platform/db/later-than-all.ts';
import { locksRows } from '../../platform/db/row-locks.ts';
import type { Transaction, Transactions } from '../../platform/db/transactions.ts';
import { isUniqueViolation } from '../../platform/db/unique-violation.ts';
import type { EventOutbox } from '../../platform/outbox/event-outbox.ts';
import { lockOrganization } from '../../platform/tenancy/lock-organization.ts';
import { nameKey, type ProjectRecord, toProject, toRecord } from '../../platform/tenancy/project.ts';
import type { Limits } from '../quotas/limits.ts';
import { sandboxThat } from '../sandbox-status/status-facts.ts';

export interface NewProject extends Pick<ProjectRecord, 'id' | 'orgId' | 'name' | 'metadata' | 'quotas'> {
  readonly idempotencyRecordId: string | undefined;
}

export interface ProjectChange {
  readonly name?: string | undefined;
  readonly metadata?: Metadata | undefined;
  readonly quotas?: ProjectQuotas | undefined;
}

export type Insertion =
  | { readonly status: 'created'; readonly project: ProjectRecord }
  /** A project was already created with this idempotency record. */
  | { readonly status: 'exists'; readonly project: ProjectRecord }
  | { readonly status: 'name_taken' }
  | { readonly status: 'full'; readonly used: number };

export type Deletion =
  /** The project is deleted, by this call or earlier. */
  | { readonly status: 'deleted'; readonly project: ProjectRecord }
  | { readonly status: 'default' }
  | { readonly status: 'in_use'; readonly liveSandboxes: number; readonly workspaceRuns: number };

export interface ProjectChangesDeps {
  readonly db: Database;
  readonly transactions: Transactions;
  readonly outbox: EventOutbox;
  readonly limits: Limits;
  readonly clock: Clock;
}

/** Writes projects, each change in one transaction with its events. */
export class ProjectChanges {
  readonly #deps: ProjectChangesDeps;

  constructor(deps: ProjectChangesDeps) {
    this.#deps = deps;
  }

  /** Counts the organization's projects against `maxOpen` and inserts, in one atomic step. */
  async insert(call: Audited, { idempotencyRecordId, ...project }: NewProject, maxOpen: number): Promise<Insertion> {
    const { transactions, limits, clock } = this.#deps;
    const createdAt = laterThanAll({ table: 'projects', list: 'org_id' }, project.orgId, clock.now());
    const row = {
      id: project.id,
      org_id: project.orgId,
      name: project.name,
      name_key: nameKey(project.name),
      is_default: 0,
      metadata: JSON.stringify(project.metadata),
      quotas: JSON.stringify(project.quotas),
      created_at: createdAt,
      updated_at: createdAt,
      idempotency_record_id: idempotencyRecordId ?? null,
    };
    return transactions.run(async (tx): Promise<Insertion> => {
      const used = await lockAndCount(tx, project.orgId);
      const made = idempotencyRecordId && (await findByIdempotencyRecord(tx.db, idempotencyRecordId));
      if (made) return { status: 'exists', project: made };
      if (used >= maxOpen) return { status: 'full', used };
      const limited = await limits.requireWithinOrganization(tx, { orgId: project.orgId }, project.quotas);
      const query = tx.db.insertInto('projects').values({ ...row, limited });
      const inserted = await query
        .onConflict((conflict) => conflict.doNothing())
        .returningAll()
        .executeTakeFirst();
      if (!inserted) return { status: 'name_taken' };
      return { status: 'created', project: await this.#announce(call, tx, 'project.created', toRecord(inserted)) };
    });
  }

  /**
   * Sets the given fields of a project. Returns undefined if the project is deleted.
   *
   * @throws AppError `invalid_request` for a quota above the organization's
   */
  async update(
    { audit }: Audited,
    { id, orgId }: Pick<ProjectRecord, 'id' | 'orgId'>,
    { name, metadata, quotas }: ProjectChange,
  ): Promise<ProjectRecord | 'name_taken' | undefined> {
    const { transactions, limits, clock } = this.#deps;
    try {
      return await transactions.run(async (tx) => {
        const limited = quotas && (await limits.requireWithinOrganization(tx, { orgId, projectId: id }, quotas));
        const query = tx.db
          .updateTable('projects')
          .set({
            updated_at: clock.now(),
            ...(name === undefined ? {} : { name, name_key: nameKey(name) }),
            ...(metadata === undefined ? {} : { metadata: JSON.stringify(metadata) }),
            ...(quotas === undefined ? {} : { quotas: JSON.stringify(quotas), limited }),
          })
          .where('id', '=', id)
          .where('deleted_at', 'is', null);
        const row = await query.returningAll().executeTakeFirst();
        if (row) await audit?.append(tx, { id, projectId: id });
        return row && toRecord(row);
      });
    } catch (error) {
      if (isUniqueViolation(error)) return 'name_taken';
      throw error;
    }
  }

  /**
   * Deletes a project that nothing uses. Idempotent.
   *
   * A sandbox that is inserted at the same time either exists before this counts, or finds the project deleted: the
   * insert locks the row of the project too (`SqlSandboxRepository.insert`).
   */
  async delete(call: Audited, id: ProjectId): Promise<Deletion> {
    return this.#deps.transactions.run(async (tx) => {
      const row = await tx.db
        .selectFrom('projects')
        .selectAll()
        .where('id', '=', id)
        .$if(locksRows(tx.db), (query) => query.forUpdate())
        .executeTakeFirstOrThrow();
      if (row.deleted_at !== null) return { status: 'deleted', project: toRecord(row) };
      if (row.is_default === 1) return { status: 'default' };
      const { live } = await tx.db
        .selectFrom('sandboxes')
        .select(({ fn }) => fn.countAll<number>().as('live'))
        .where('org_id', '=', row.org_id)
        .where('project_id', '=', id)
        .where(sandboxThat('keepsProject'))
        .executeTakeFirstOrThrow();
      const { unfinished } = await tx.db
        .selectFrom('workspace_runs')
        .select(({ fn }) => fn.countAll<number>().as('unfinished'))
        .where('org_id', '=', row.org_id)
        .where('project_id', '=', id)
        .where('status', 'in', UNFINISHED_RUN_STATUSES)
        .executeTakeFirstOrThrow();
      const [liveSandboxes, workspaceRuns] = [Number(live), Number(unfinished)];
      if (liveSandboxes + workspaceRuns > 0) return { status: 'in_use', liveSandboxes, workspaceRuns };
      const deleted = await tx.db
        .updateTable('projects')
        .set({ deleted_at: this.#deps.clock.now() })
        .where('id', '=', id)
        .returningAll()
        .executeTakeFirstOrThrow();
      return { status: 'deleted', project: await this.#announce(call, tx, 'project.deleted', toRecord(deleted)) };
    });
  }

  async #announce(
    { audit }: Audited,
    tx: Transaction,
    type: 'project.created' | 'project.deleted',
    record: ProjectRecord,
  ): Promise<ProjectRecord> {
    const { id, orgId } = record;
    await this.#deps.outbox.append(tx, { type, orgId, projectId: id, data: { project: toProject(record) } });
    await audit?.append(tx, { id, projectId: id });
    return record;
  }
}

/** Makes other creations of the organization wait until the end of the transaction. */
async function lockAndCount(tx: Transaction, orgId: OrgId): Promise<number> {
  await lockOrganization(tx, orgId);
  const { open } = await tx.db
    .selectFrom('projects')
    .select(({ fn }) => fn.countAll<number>().as('open'))
    .where('org_id', '=', orgId)
    .where('deleted_at', 'is', null)
    .executeTakeFirstOrThrow();
  return Number(open);
}

async function findByIdempotencyRecord(db: Database, recordId: string): Promise<ProjectRecord | undefined> {
  const query = db.selectFrom('projects').selectAll().where('idempotency_record_id', '=', recordId);
  const row = await query.executeTakeFirst();
  return row && toRecord(row);
}
