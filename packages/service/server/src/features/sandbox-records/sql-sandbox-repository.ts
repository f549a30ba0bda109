import type { ProjectId, SandboxId } from '@cloche/contract';
import type { Selectable } from 'kysely';
import type { Changes } from '../../platform/base/changes.ts';
import type { Clock } from '../../platform/base/clock.ts';
import { type Audited, UNAUDITED } from '../../platform/call/call.ts';
import type { Database } from '../../platform/db/database.ts';
import type { ListPart } from '../../platform/db/list-part.ts';
import { Lookups } from '../../platform/db/lookups.ts';
import { prepareQuery } from '../../platform/db/prepared-query.ts';
import type { SandboxTable } from '../../platform/db/tables/sandbox-tables.ts';
import type { Transaction, Transactions } from '../../platform/db/transactions.ts';
import { isUniqueViolation } from '../../platform/db/unique-violation.ts';
import type { EventOutbox } from '../../platform/outbox/event-outbox.ts';
import { isOpenProject } from '../../platform/tenancy/open-project.ts';
import type { SandboxUsages } from '../metering/sandbox-usages.ts';
import { type Fact, factsOf, sandboxThat, stateOf } from '../sandbox-status/status-facts.ts';
import { type Activity, allows, type SandboxRecord, type TransitionName, toSandbox, transitionOf } from './sandbox.ts';
import { type MoveName, moveOf } from './sandbox-pauses.ts';
import * as queries from './sandbox-queries.ts';
import type {
  InsertResult,
  MoveChange,
  SandboxFilter,
  SandboxRepository,
  SandboxUpdate,
  TransitionChange,
} from './sandbox-repository.ts';
import { type NewSandboxRow, toColumns, toMoveColumns, toRecord, toRow, toUpdateColumns } from './sandbox-row.ts';
import { PreparedChanges, type PreparedInsert, prepareInsert, type Values } from './sandbox-statements.ts';

/** Transitions that end usage metering. */
const ENDS: ReadonlySet<TransitionName> = new Set(['destroy', 'fail'] as const);
type SandboxEventType = NonNullable<ReturnType<typeof transitionOf | typeof moveOf>['event']>;

export interface SqlSandboxRepositoryDeps {
  readonly db: Database;
  readonly transactions: Transactions;
  readonly outbox: EventOutbox;
  /** Notified after the commit of each change of status. */
  readonly changes: Changes<SandboxId>;
  /** Decides the status that an event gives. */
  readonly activity: Activity;
  readonly usages: SandboxUsages;
  readonly clock: Clock;
  /** Id of this server. */
  readonly serverId: string;
  /** Longest time for which a pause may last. */
  readonly pauseRetentionMs: number;
}

/** Appends the event of each change that has one in the transaction of that change. */
export class SqlSandboxRepository implements SandboxRepository {
  readonly #deps: SqlSandboxRepositoryDeps;
  readonly #db: Database;
  /** Prepared, because every run looks up its sandbox. */
  readonly #findById;
  readonly #found: Lookups<SandboxRecord>;
  readonly #findByIdempotencyRecord;
  #insert: PreparedInsert | undefined;
  #insertUnlimited: PreparedInsert | undefined;
  readonly #changes: PreparedChanges;

  constructor(deps: SqlSandboxRepositoryDeps) {
    const { db } = deps;
    this.#deps = deps;
    this.#db = db;
    this.#changes = new PreparedChanges(db);
    this.#found = new Lookups(db, ['sandboxes']);
    this.#findById = prepareQuery(db, ({ id }: { id: string }) =>
      db.selectFrom('sandboxes').selectAll().where('id', '=', id),
    );
    this.#findByIdempotencyRecord = prepareQuery(db, ({ recordId }: { recordId: string }) =>
      db.selectFrom('sandboxes').selectAll().where('idempotency_record_id', '=', recordId),
    );
  }

  async insert(call: Audited, record: SandboxRecord, tx?: Transaction): Promise<InsertResult> {
    const row = toRow(record);
    this.#insert ??= prepareInsert(this.#db, Object.keys(row) as (keyof NewSandboxRow)[], 'any');
    return this.#inserted(call, record, this.#insert, row, tx);
  }

  async insertUnlimited(call: Audited, record: SandboxRecord): Promise<InsertResult | { readonly status: 'limited' }> {
    const row = toRow(record);
    this.#insertUnlimited ??= prepareInsert(this.#db, Object.keys(row) as (keyof NewSandboxRow)[], 'unlimited');
    const result = await this.#inserted(call, record, this.#insertUnlimited, row);
    if (result.status !== 'project_deleted') return result;
    return (await isOpenProject(this.#db, record.projectId)) ? { status: 'limited' } : result;
  }

  async #inserted(
    call: Audited,
    record: SandboxRecord,
    insert: PreparedInsert,
    row: NewSandboxRow,
    tx?: Transaction,
  ): Promise<InsertResult> {
    const write = async (own: Transaction) => {
      const [inserted] = (await insert(row as Values, own)).rows;
      return inserted && { ...record, createdAt: inserted.created_at };
    };
    const inserted = await this.#changed(call, 'sandbox.created', write, tx);
    if (inserted) return { status: 'inserted', record: inserted };
    const { idempotencyRecordId: recordId, projectId, name } = record;
    const existing = recordId === undefined ? undefined : await this.findByIdempotencyRecord(recordId, tx);
    if (existing) return { status: 'exists', record: existing };
    const holder = name === undefined ? undefined : await this.findNamed(projectId, name, tx);
    if (holder) return { status: 'name_taken', record: holder };
    // The sandbox that had the name may have ended meanwhile. An unlimited insert is repeated by its caller.
    const isLast =
      name === undefined || insert !== this.#insert || !(await isOpenProject(tx?.db ?? this.#db, projectId));
    return isLast ? { status: 'project_deleted' } : this.#inserted(call, record, insert, row, tx);
  }

  async find(id: string): Promise<SandboxRecord | undefined> {
    return this.#found.find(id, async () => {
      const [row] = (await this.#findById({ id })).rows;
      return row && this.#toRecord(row);
    });
  }

  async findByIdempotencyRecord(recordId: string, tx?: Transaction): Promise<SandboxRecord | undefined> {
    const [row] = (await this.#findByIdempotencyRecord({ recordId }, tx)).rows;
    return row && this.#toRecord(row);
  }

  async findNamed(projectId: ProjectId, name: string, tx?: Transaction): Promise<SandboxRecord | undefined> {
    const row = await queries.findNamed(tx?.db ?? this.#db, projectId, name);
    return row && this.#toRecord(row);
  }

  async list(filter: SandboxFilter, part: ListPart): Promise<SandboxRecord[]> {
    return this.#toRecords(await queries.listSandboxes(this.#db, filter, part));
  }

  async listThat(fact: Fact): Promise<SandboxRecord[]> {
    return this.#toRecords(await queries.listThat(this.#db, fact));
  }

  async transition(
    current: SandboxRecord,
    transition: TransitionName,
    change: TransitionChange = {},
    call: Audited = UNAUDITED,
  ): Promise<SandboxRecord | undefined> {
    if (!allows(transition, current.status)) return undefined;
    const columns = toColumns(change);
    const { id, status, expiresAt } = current;
    const seen = { ...seenOf(current), seenStatus: status, seenExpiresAt: expiresAt };
    const { clock, serverId } = this.#deps;
    const isIdle = change.endingReason === 'idle_expired' && factsOf(current).isReady;
    const idle = isIdle ? { now: clock.now(), own: serverId } : undefined;
    const write = this.#changes.transition(transition, Object.keys(columns), idle !== undefined);
    const { event } = transitionOf(transition);
    if (event || call.audit) {
      const writeAndCount = async (tx: Transaction) => {
        const [row] = (await write({ ...columns, ...seen, ...idle }, tx)).rows;
        const record = row && this.#toRecord(row);
        if (record && ENDS.has(transition)) await this.#deps.usages.end(record, change.use, tx);
        return record;
      };
      return this.#changed(call, event, writeAndCount);
    }
    const [row] = (await write({ ...columns, ...seen, ...idle })).rows;
    if (!row) return undefined;
    this.#deps.changes.notify(id);
    return this.#toRecord(row);
  }

  async move(
    current: SandboxRecord,
    move: MoveName,
    change: MoveChange = {},
    call: Audited = UNAUDITED,
    joined?: Transaction,
  ): Promise<SandboxRecord | undefined> {
    const { from, event } = moveOf(move);
    if (!from.includes(stateOf(current))) return undefined;
    const columns = toMoveColumns(change);
    const { due } = change;
    const condition = due && (due.idleAt === undefined ? 'expiry' : 'idle');
    const write = this.#changes.move(move, Object.keys(columns), condition);
    const judged = due && { seenExpiresAt: current.expiresAt, now: due.idleAt ?? 0, own: this.#deps.serverId };
    const writeAndCount = async (tx: Transaction) => {
      const [row] = (await write({ ...columns, ...seenOf(current), ...judged }, tx)).rows;
      const record = row && this.#toRecord(row);
      if (!record) return undefined;
      const isSame = factsOf(record).metersOnlyDisk === factsOf(current).metersOnlyDisk;
      if (!isSame || change.use) await this.#deps.usages.countUp(current, change, tx);
      await change.alongside?.(tx);
      return record;
    };
    return this.#changed(call, event, writeAndCount, joined);
  }

  async setTtl(
    call: Audited,
    current: SandboxRecord,
    { ttlMs, expiresAt }: { ttlMs: number; expiresAt: number },
  ): Promise<SandboxRecord | undefined> {
    const write = async ({ db }: Transaction) => {
      const query = db
        .updateTable('sandboxes')
        .set({ ttl_ms: ttlMs, expires_at: expiresAt })
        .where('id', '=', current.id)
        .where(sandboxThat('acceptsWork'))
        .where('pause_epoch', '=', current.pauseEpoch)
        .where('expires_at', '=', current.expiresAt);
      const row = await query.returningAll().executeTakeFirst();
      return row && this.#toRecord(row);
    };
    return this.#changed(call, 'sandbox.extended', write);
  }

  async update(
    call: Audited,
    current: SandboxRecord,
    change: SandboxUpdate,
    tx?: Transaction,
  ): Promise<SandboxRecord | 'name_taken' | undefined> {
    const write = async ({ db }: Transaction) => {
      const query = db.updateTable('sandboxes').set(toUpdateColumns(change)).where('id', '=', current.id);
      const row = await query.where(sandboxThat('acceptsWork')).returningAll().executeTakeFirst();
      return row && this.#toRecord(row);
    };
    return this.#changed(call, 'sandbox.updated', write, tx).catch((error) => {
      if (isUniqueViolation(error)) return 'name_taken' as const;
      throw error;
    });
  }

  async releaseLaunches(serverId: string): Promise<void> {
    const query = this.#db.updateTable('sandboxes').set({ launch_owner: null }).where('launch_owner', '=', serverId);
    await query.where(sandboxThat('isPending')).execute();
  }

  async markUsed(id: SandboxId): Promise<void> {
    await this.#db.updateTable('sandboxes').set({ used: 1 }).where('id', '=', id).execute();
  }

  async recordActivity(id: SandboxId, at: number): Promise<void> {
    await this.#db.updateTable('sandboxes').set({ last_active_at: at }).where('id', '=', id).execute();
  }

  async listExpired(now: number): Promise<SandboxRecord[]> {
    return this.#toRecords(await queries.listExpired(this.#db, now));
  }

  nextExpiry(now: number): Promise<number | undefined> {
    return queries.nextExpiry(this.#db, now);
  }

  async listRetentionEnding(now: number): Promise<SandboxRecord[]> {
    return this.#toRecords(await queries.listRetentionEnding(this.#db, now));
  }

  async listPausedOf(ids: readonly SandboxId[]): Promise<SandboxRecord[]> {
    return this.#toRecords(await queries.listPausedOf(this.#db, ids));
  }

  async findLongestPaused(): Promise<SandboxRecord | undefined> {
    return this.#toRecords(await queries.findLongestPaused(this.#db))[0];
  }

  async listWithIdleTimeout(): Promise<SandboxRecord[]> {
    return this.#toRecords(await queries.listWithIdleTimeout(this.#db));
  }

  /** Runs `write` with its events in one transaction. Returns undefined, without an event, if it changes no row. */
  #changed(
    { audit }: Audited,
    type: SandboxEventType | undefined,
    write: (tx: Transaction) => Promise<SandboxRecord | undefined>,
    joined?: Transaction,
  ): Promise<SandboxRecord | undefined> {
    const { transactions, outbox, changes, activity } = this.#deps;
    return transactions.run(async (tx) => {
      const record = await write(tx);
      if (!record) return undefined;
      const { orgId, projectId } = record;
      tx.afterCommit(() => changes.notify(record.id));
      if (type) await outbox.append(tx, { type, orgId, projectId, data: { sandbox: toSandbox(record, activity) } });
      await audit?.append(tx, record);
      return record;
    }, joined);
  }

  #toRecords(rows: readonly Selectable<SandboxTable>[]): SandboxRecord[] {
    return rows.map((row) => this.#toRecord(row));
  }

  #toRecord(row: Selectable<SandboxTable>): SandboxRecord {
    return toRecord(row, this.#deps.pauseRetentionMs);
  }
}

/** The values of a record that each change of its state compares. */
function seenOf({ id, generation, pauseEpoch }: SandboxRecord) {
  return { seenId: id, seenGeneration: generation, seenEpoch: pauseEpoch };
}
