import type { DestroyedReason, OrgId, ProjectId, SandboxId, TemplateId, TemplateVersionId } from '@cloche/contract';
import type { Insertable, Selectable, Transaction } from 'kysely';
import type { Database, SandboxTable, Tables } from '../db/database.ts';
import { prepareQuery } from '../db/prepared-query.ts';
import {
  allows,
  LIVE_STATUSES,
  OCCUPYING_STATUSES,
  type RecordStatus,
  type SandboxRecord,
  TRANSITIONS,
  type TransitionName,
} from './sandbox.ts';
import type { SandboxChanges } from './sandbox-changes.ts';
import type { InsertResult, SandboxFilter, SandboxRepository, TransitionChange } from './sandbox-repository.ts';

export class SqlSandboxRepository implements SandboxRepository {
  readonly #db: Database;
  readonly #changes: SandboxChanges;
  /** Every run looks its sandbox up. */
  readonly #findById;

  constructor(db: Database, changes: SandboxChanges) {
    this.#db = db;
    this.#changes = changes;
    this.#findById = prepareQuery(db, ({ id }: { id: string }) =>
      db.selectFrom('sandboxes').selectAll().where('id', '=', id),
    );
  }

  async insert(record: SandboxRecord, maxLive: number | undefined): Promise<InsertResult> {
    return this.#db.transaction().execute(async (trx) => {
      if (maxLive !== undefined) {
        const used = await countOccupying(trx, record.orgId);
        if (used >= maxLive) return { status: 'quota_exceeded', used };
      }
      const row = await trx
        .insertInto('sandboxes')
        .values(toRow(record))
        .onConflict((conflict) => conflict.column('idempotency_record_id').doNothing())
        .returningAll()
        .executeTakeFirst();
      if (row) return { status: 'inserted', record: toRecord(row) };
      const existing = await trx
        .selectFrom('sandboxes')
        .selectAll()
        .where('idempotency_record_id', '=', record.idempotencyRecordId ?? '')
        .executeTakeFirstOrThrow();
      return { status: 'exists', record: toRecord(existing) };
    });
  }

  async find(id: string): Promise<SandboxRecord | undefined> {
    const [row] = (await this.#findById({ id })).rows;
    return row && toRecord(row);
  }

  async findByIdempotencyRecord(recordId: string): Promise<SandboxRecord | undefined> {
    const query = this.#db.selectFrom('sandboxes').selectAll().where('idempotency_record_id', '=', recordId);
    const row = await query.executeTakeFirst();
    return row && toRecord(row);
  }

  async list({ orgId, projectIds, statuses }: SandboxFilter): Promise<SandboxRecord[]> {
    let query = this.#db.selectFrom('sandboxes').selectAll().where('org_id', '=', orgId);
    query = query.where('status', 'in', statuses);
    if (projectIds) query = query.where('project_id', 'in', projectIds);
    const rows = await query.orderBy('created_at', 'desc').orderBy('id', 'desc').execute();
    return rows.map(toRecord);
  }

  async listByStatus(statuses: readonly RecordStatus[]): Promise<SandboxRecord[]> {
    const rows = await this.#db.selectFrom('sandboxes').selectAll().where('status', 'in', statuses).execute();
    return rows.map(toRecord);
  }

  async transition(
    current: SandboxRecord,
    transition: TransitionName,
    change: TransitionChange = {},
  ): Promise<SandboxRecord | undefined> {
    if (!allows(transition, current.status)) return undefined;
    let query = this.#db
      .updateTable('sandboxes')
      .set({ status: TRANSITIONS[transition].to, ...toColumns(change) })
      .where('id', '=', current.id)
      .where('generation', '=', current.generation)
      .where('status', '=', current.status);
    if (transition === 'end') query = query.where('expires_at', '=', current.expiresAt);
    const row = await query.returningAll().executeTakeFirst();
    if (row) this.#changes.notify(current.id);
    return row && toRecord(row);
  }

  async setTtl(
    current: SandboxRecord,
    { ttlMs, expiresAt }: { ttlMs: number; expiresAt: number },
  ): Promise<SandboxRecord | undefined> {
    const row = await this.#db
      .updateTable('sandboxes')
      .set({ ttl_ms: ttlMs, expires_at: expiresAt })
      .where('id', '=', current.id)
      .where('status', 'in', LIVE_STATUSES)
      .where('expires_at', '=', current.expiresAt)
      .returningAll()
      .executeTakeFirst();
    return row && toRecord(row);
  }

  async markUsed(id: SandboxId): Promise<void> {
    await this.#db.updateTable('sandboxes').set({ used: 1 }).where('id', '=', id).execute();
  }

  async recordActivity(id: SandboxId, at: number): Promise<void> {
    await this.#db.updateTable('sandboxes').set({ last_active_at: at }).where('id', '=', id).execute();
  }

  async listExpired(now: number): Promise<SandboxRecord[]> {
    const rows = await this.#db
      .selectFrom('sandboxes')
      .selectAll()
      .where('status', 'in', LIVE_STATUSES)
      .where('expires_at', '<=', now)
      .execute();
    return rows.map(toRecord);
  }

  async nextExpiry(): Promise<number | undefined> {
    const row = await this.#db
      .selectFrom('sandboxes')
      .select((select) => select.fn.min('expires_at').as('at'))
      .where('status', 'in', LIVE_STATUSES)
      .executeTakeFirst();
    return row?.at ?? undefined;
  }

  async listWithIdleTimeout(): Promise<SandboxRecord[]> {
    const query = this.#db.selectFrom('sandboxes').selectAll().where('status', '=', 'ready');
    const rows = await query.where('idle_timeout_ms', 'is not', null).execute();
    return rows.map(toRecord);
  }
}

async function countOccupying(trx: Transaction<Tables>, orgId: OrgId): Promise<number> {
  // Writing the organization's row makes creations of one organization take turns, on every database.
  await trx
    .updateTable('orgs')
    .set((update) => ({ name: update.ref('name') }))
    .where('id', '=', orgId)
    .execute();
  const { used } = await trx
    .selectFrom('sandboxes')
    .select((select) => select.fn.countAll<number>().as('used'))
    .where('org_id', '=', orgId)
    .where('status', 'in', OCCUPYING_STATUSES)
    .executeTakeFirstOrThrow();
  return Number(used);
}

function toColumns(change: TransitionChange) {
  return {
    ...(change.instance === undefined ? {} : { instance: JSON.stringify(change.instance) }),
    ...(change.failureReason === undefined ? {} : { failure_reason: change.failureReason }),
    ...(change.endingReason === undefined ? {} : { ending_reason: change.endingReason }),
    ...(change.destroyedReason === undefined ? {} : { destroyed_reason: change.destroyedReason }),
    ...(change.destroyedAt === undefined ? {} : { destroyed_at: change.destroyedAt }),
    ...(change.lastActiveAt === undefined ? {} : { last_active_at: change.lastActiveAt }),
    ...(change.generation === undefined ? {} : { generation: change.generation, instance: null }),
  };
}

function toRow(record: SandboxRecord): Insertable<SandboxTable> {
  return {
    id: record.id,
    org_id: record.orgId,
    project_id: record.projectId,
    status: record.status,
    generation: record.generation,
    template_id: record.templateId,
    template_slug: record.templateSlug,
    template_version: record.templateVersion,
    template_version_id: record.templateVersionId,
    ttl_ms: record.ttlMs,
    idle_timeout_ms: record.idleTimeoutMs ?? null,
    expires_at: record.expiresAt,
    metadata: JSON.stringify(record.metadata),
    env: JSON.stringify(record.env),
    network_policy: JSON.stringify(record.networkPolicy),
    resources: JSON.stringify(record.resources),
    used: record.used ? 1 : 0,
    last_active_at: record.lastActiveAt ?? null,
    instance: record.instance ? JSON.stringify(record.instance) : null,
    created_at: record.createdAt,
    destroyed_at: record.destroyedAt ?? null,
    destroyed_reason: record.destroyedReason ?? null,
    failure_reason: record.failureReason ?? null,
    ending_reason: record.endingReason ?? null,
    idempotency_record_id: record.idempotencyRecordId ?? null,
  };
}

/** The casts are sound: nothing else writes these columns. */
function toRecord(row: Selectable<SandboxTable>): SandboxRecord {
  return {
    id: row.id as SandboxId,
    orgId: row.org_id as OrgId,
    projectId: row.project_id as ProjectId,
    status: row.status,
    generation: row.generation,
    templateId: row.template_id as TemplateId,
    templateSlug: row.template_slug,
    templateVersion: row.template_version,
    templateVersionId: row.template_version_id as TemplateVersionId,
    ttlMs: row.ttl_ms,
    idleTimeoutMs: row.idle_timeout_ms ?? undefined,
    expiresAt: row.expires_at,
    metadata: JSON.parse(row.metadata),
    env: JSON.parse(row.env),
    networkPolicy: JSON.parse(row.network_policy),
    resources: JSON.parse(row.resources),
    used: row.used === 1,
    lastActiveAt: row.last_active_at ?? undefined,
    instance: row.instance === null ? undefined : JSON.parse(row.instance),
    createdAt: row.created_at,
    destroyedAt: row.destroyed_at ?? undefined,
    destroyedReason: (row.destroyed_reason as DestroyedReason | null) ?? undefined,
    failureReason: row.failure_reason ?? undefined,
    endingReason: (row.ending_reason as DestroyedReason | null) ?? undefined,
    idempotencyRecordId: row.idempotency_record_id ?? undefined,
  };
}
