import { type CommandId, type CommandUser, ID_PREFIXES, type SandboxId, type Signal } from '@cloche/contract';
import { type ExpressionBuilder, type Selectable, sql } from 'kysely';
import type { Database, Tables } from '../../platform/db/database.ts';
import { laterThanAll } from '../../platform/db/later-than-all.ts';
import { type ListPart, readPart } from '../../platform/db/list-part.ts';
import type { CommandTable } from '../../platform/db/tables/sandbox-tables.ts';
import type { Transaction } from '../../platform/db/transactions.ts';
import { sandboxThat } from '../sandbox-status/status-facts.ts';
import { type CommandEnding, type CommandRecord, KILLED, PAUSED_WITHOUT_MEMORY } from './command.ts';

/** Stores command records. They outlive their sandboxes. */
export interface CommandRepository {
  /** Returns the stored record, or undefined when a command with the idempotency record exists. */
  insert(record: CommandRecord, tx?: Transaction): Promise<CommandRecord | undefined>;
  find(sandboxId: SandboxId, id: string): Promise<CommandRecord | undefined>;
  findByIdempotencyRecord(sandboxId: SandboxId, recordId: string): Promise<CommandRecord | undefined>;
  /** Returns all commands of a sandbox, oldest first. */
  /** Returns a part of the commands of a sandbox, oldest first. */
  list(sandboxId: SandboxId, part: ListPart): Promise<CommandRecord[]>;
  /**
   * Returns commands recorded as running, in ready sandboxes, for whose end no server that lives at `now` is waiting.
   * Includes the commands of the server `earlier`, which its previous process watched. Excludes commands of workspace
   * runs: the server that adopts such a run starts its command itself, and the agent may not know the command yet.
   */
  listUnwatched(now: number, earlier?: string): Promise<CommandRecord[]>;
  /**
   * Records that a server waits for the end of a running command. Returns false if another server has done so since
   * `record` was read.
   */
  claimWatch(record: CommandRecord, serverId: string): Promise<boolean>;
  /** Releases the commands that a server watches, so that another server takes them over. */
  releaseWatches(serverId: string): Promise<void>;
  /** Records an ending unless one is recorded already. Returns the resulting record. */
  finish(record: CommandRecord, ending: CommandEnding): Promise<CommandRecord>;
  /** Records that the memory of a sandbox was dropped, which has killed all its commands. */
  killOf(sandboxId: SandboxId, at: number, tx: Transaction): Promise<void>;
  /**
   * Records that a command which the pause of its sandbox has kept from its start runs from now on, in another generation.
   */
  beginAgain(record: CommandRecord, generation: number): Promise<void>;
  /** Notes a signal for a command of a paused sandbox. */
  putOff(record: CommandRecord, signal: Signal): Promise<void>;
  /** Returns the signals that were noted and not taken. */
  listPutOff(sandboxId: SandboxId): Promise<{ id: CommandId; signal: Signal }[]>;
  takeSignal(id: CommandId): Promise<void>;
  /**
   * Removes the record of a command that was not started, unless another server has recorded its end or works on it
   * since `record` was read.
   */
  remove(record: CommandRecord): Promise<void>;
}

const OLDEST_FIRST = { by: 'started_at', id: 'id', direction: 'asc' } as const;

export class SqlCommandRepository implements CommandRepository {
  readonly #db: Database;

  constructor(db: Database) {
    this.#db = db;
  }

  async insert(record: CommandRecord, tx?: Transaction): Promise<CommandRecord | undefined> {
    const row = await (tx?.db ?? this.#db)
      .insertInto('commands')
      .values({
        id: record.id,
        sandbox_id: record.sandboxId,
        generation: record.generation,
        command: JSON.stringify(record.command),
        cwd: record.cwd,
        user: record.user,
        background: record.background ? 1 : 0,
        status: record.status,
        started_at: laterThanAll(
          { table: 'commands', list: 'sandbox_id', by: 'started_at' },
          record.sandboxId,
          record.startedAt,
        ),
        idempotency_record_id: record.idempotencyRecordId ?? null,
        watched_by: record.watchedBy ?? null,
      })
      .onConflict((conflict) => conflict.doNothing())
      .returning('started_at')
      .executeTakeFirst();
    return row && { ...record, startedAt: row.started_at };
  }

  async find(sandboxId: SandboxId, id: string): Promise<CommandRecord | undefined> {
    const row = await this.#of(sandboxId).where('id', '=', id).executeTakeFirst();
    return row && toRecord(row);
  }

  async findByIdempotencyRecord(sandboxId: SandboxId, recordId: string): Promise<CommandRecord | undefined> {
    const row = await this.#of(sandboxId).where('idempotency_record_id', '=', recordId).executeTakeFirst();
    return row && toRecord(row);
  }

  async list(sandboxId: SandboxId, part: ListPart): Promise<CommandRecord[]> {
    return (await readPart(this.#of(sandboxId), OLDEST_FIRST, part)).map(toRecord);
  }

  async listUnwatched(now: number, earlier?: string): Promise<CommandRecord[]> {
    const rows = await this.#db
      .selectFrom('commands')
      .innerJoin('sandboxes', 'sandboxes.id', 'commands.sandbox_id')
      .leftJoin('server_leases', (join) =>
        join.onRef('server_leases.id', '=', 'commands.watched_by').on('server_leases.lease_until', '>', now),
      )
      .where('commands.status', '=', 'running')
      .where(sandboxThat('isReady'))
      .where((eb) => eb.or([eb('server_leases.id', 'is', null), eb('commands.watched_by', '=', earlier ?? '')]))
      .where(({ eb, or }) =>
        or([
          eb('commands.idempotency_record_id', 'is', null),
          eb('commands.idempotency_record_id', 'not like', `${ID_PREFIXES.workspaceRun}%`),
        ]),
      )
      .selectAll('commands')
      .execute();
    return rows.map(toRecord);
  }

  async claimWatch(record: CommandRecord, serverId: string): Promise<boolean> {
    const { numUpdatedRows } = await this.#db
      .updateTable('commands')
      .set({ watched_by: serverId })
      .where(stillWatchedAs(record))
      .executeTakeFirst();
    return numUpdatedRows > 0n;
  }

  async releaseWatches(serverId: string): Promise<void> {
    const query = this.#db.updateTable('commands').set({ watched_by: null }).where('watched_by', '=', serverId);
    await query.where('status', '=', 'running').execute();
  }

  async finish(record: CommandRecord, ending: CommandEnding): Promise<CommandRecord> {
    const row = await this.#db
      .updateTable('commands')
      .set({
        status: ending.status,
        exit_code: ending.exitCode ?? null,
        signal: ending.signal ?? null,
        failure_reason: ending.failureReason ?? null,
        finished_at: ending.finishedAt ?? null,
        duration_ms: ending.durationMs ?? null,
      })
      .where('id', '=', record.id)
      .where('status', '=', 'running')
      .returningAll()
      .executeTakeFirst();
    return row ? toRecord(row) : ((await this.find(record.sandboxId, record.id)) ?? record);
  }

  async killOf(sandboxId: SandboxId, at: number, { db }: Transaction): Promise<void> {
    const { status, exitCode, signal } = KILLED;
    const duration = sql<number>`case when started_at < ${at} then ${at} - started_at else 0 end`;
    const ending = { status, exit_code: exitCode, signal, failure_reason: PAUSED_WITHOUT_MEMORY };
    await db
      .updateTable('commands')
      .set({ ...ending, finished_at: at, duration_ms: duration, pending_signal: null })
      .where('sandbox_id', '=', sandboxId)
      .where('status', '=', 'running')
      .execute();
  }

  async beginAgain({ id, sandboxId }: CommandRecord, generation: number): Promise<void> {
    const ending = { exit_code: null, signal: null, failure_reason: null, finished_at: null, duration_ms: null };
    await this.#db
      .updateTable('commands')
      .set({ generation, status: 'running', ...ending })
      .where('id', '=', id)
      .where('sandbox_id', '=', sandboxId)
      .where('generation', '<', generation)
      .execute();
  }

  async putOff({ id }: CommandRecord, signal: Signal): Promise<void> {
    const query = this.#db.updateTable('commands').set({ pending_signal: signal }).where('id', '=', id);
    // A signal that cannot be caught stays.
    await query.where(sql<boolean>`coalesce(pending_signal, '') <> 'SIGKILL'`).execute();
  }

  async listPutOff(sandboxId: SandboxId): Promise<{ id: CommandId; signal: Signal }[]> {
    const rows = await this.#of(sandboxId).where('pending_signal', 'is not', null).execute();
    return rows.map(({ id, pending_signal }) => ({ id: id as CommandId, signal: pending_signal as Signal }));
  }

  async takeSignal(id: CommandId): Promise<void> {
    await this.#db.updateTable('commands').set({ pending_signal: null }).where('id', '=', id).execute();
  }

  async remove(record: CommandRecord): Promise<void> {
    await this.#db.deleteFrom('commands').where(stillWatchedAs(record)).execute();
  }

  #of(sandboxId: SandboxId) {
    return this.#db.selectFrom('commands').selectAll().where('sandbox_id', '=', sandboxId);
  }
}

/** Returns the condition that a command is running and is watched by the same server as in `record`. */
function stillWatchedAs({ id, watchedBy }: CommandRecord) {
  return ({ and, eb }: ExpressionBuilder<Tables, 'commands'>) =>
    and([
      eb('id', '=', id),
      eb('status', '=', 'running'),
      watchedBy === undefined ? eb('watched_by', 'is', null) : eb('watched_by', '=', watchedBy),
    ]);
}

/** Converts a row. The casts are sound because only this repository writes these columns. */
function toRecord(row: Selectable<CommandTable>): CommandRecord {
  return {
    id: row.id as CommandId,
    sandboxId: row.sandbox_id as SandboxId,
    generation: row.generation,
    command: JSON.parse(row.command),
    cwd: row.cwd,
    user: row.user as CommandUser,
    background: row.background === 1,
    status: row.status,
    exitCode: row.exit_code ?? undefined,
    signal: row.signal ?? undefined,
    failureReason: row.failure_reason ?? undefined,
    startedAt: row.started_at,
    finishedAt: row.finished_at ?? undefined,
    durationMs: row.duration_ms ?? undefined,
    idempotencyRecordId: row.idempotency_record_id ?? undefined,
    watchedBy: row.watched_by ?? undefined,
  };
}
