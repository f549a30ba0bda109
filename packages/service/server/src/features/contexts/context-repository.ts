import type { ContextId, Language, SandboxId } from '@cloche/contract';
import { type Selectable, sql } from 'kysely';
import type { Database } from '../../platform/db/database.ts';
import { laterThanAll } from '../../platform/db/later-than-all.ts';
import { type ListPart, NEWEST_FIRST, readPart } from '../../platform/db/list-part.ts';
import { Lookups } from '../../platform/db/lookups.ts';
import { prepareQuery } from '../../platform/db/prepared-query.ts';
import type { CodeContextTable } from '../../platform/db/tables/sandbox-tables.ts';
import type { Transaction } from '../../platform/db/transactions.ts';
import type { Attempt } from '../../platform/idempotency/require-claim.ts';
import type { ContextRecord } from './context.ts';

/** Stores context records. The records of deleted contexts are kept; an active context is one that is not deleted. */
export interface ContextRepository {
  /**
   * Returns the stored record, or undefined when the idempotency record already has a context, or the sandbox already has a default context of
   * the language.
   */
  insert(record: ContextRecord, tx?: Transaction): Promise<ContextRecord | undefined>;
  /** Also finds deleted contexts. */
  find(sandboxId: SandboxId, id: string): Promise<ContextRecord | undefined>;
  /** Also finds deleted contexts. */
  findByIdempotencyRecord(sandboxId: SandboxId, recordId: string): Promise<ContextRecord | undefined>;
  findDefault(sandboxId: SandboxId, language: Language): Promise<ContextRecord | undefined>;
  /** Returns the active contexts, oldest first. */
  list(sandboxId: SandboxId, part: ListPart): Promise<ContextRecord[]>;
  /** Returns the contexts of a sandbox that were deleted at `since` or later. */
  listDeleted(sandboxId: SandboxId, since: number): Promise<ContextId[]>;
  /** Records that the context runs in a generation. Returns false if it has run in it, or in a later one. */
  enter(id: ContextId, generation: number): Promise<boolean>;
  /** Returns undefined when the context is not active. */
  markDeleted(id: ContextId, at: number, tx?: Transaction): Promise<ContextRecord | undefined>;
  /**
   * Removes the record of a context that could not be opened. Returns false and keeps the record if a later claim of
   * the request exists: another server then uses the context, or has returned it to the client.
   */
  remove(id: ContextId, attempt: Attempt | undefined): Promise<boolean>;
}

const OLDEST_FIRST = { ...NEWEST_FIRST, direction: 'asc' } as const;

export class SqlContextRepository implements ContextRepository {
  readonly #db: Database;
  // Prepared, because every run looks up its context with one of these two.
  readonly #findById;
  readonly #findDefault;
  readonly #found: Lookups<ContextRecord>;
  readonly #foundDefaults: Lookups<ContextRecord>;

  constructor(db: Database) {
    this.#db = db;
    this.#found = new Lookups(db, ['code_contexts']);
    this.#foundDefaults = new Lookups(db, ['code_contexts']);
    this.#findById = prepareQuery(db, ({ sandboxId, id }: { sandboxId: string; id: string }) =>
      db.selectFrom('code_contexts').selectAll().where('id', '=', id).where('sandbox_id', '=', sandboxId),
    );
    this.#findDefault = prepareQuery(db, ({ sandboxId, language }: { sandboxId: string; language: string }) =>
      db
        .selectFrom('code_contexts')
        .selectAll()
        .where('sandbox_id', '=', sandboxId)
        .where('language', '=', language)
        // A literal, because SQLite does not use the partial index for a bound parameter.
        .where('is_default', '=', sql.lit(1))
        .where('deleted_at', 'is', null),
    );
  }

  async insert(record: ContextRecord, tx?: Transaction): Promise<ContextRecord | undefined> {
    const row = await (tx?.db ?? this.#db)
      .insertInto('code_contexts')
      .values({
        id: record.id,
        sandbox_id: record.sandboxId,
        generation: record.generation,
        language: record.language,
        cwd: record.cwd,
        is_default: record.isDefault ? 1 : 0,
        timeout_ms: record.timeoutMs ?? null,
        created_at: laterThanAll({ table: 'code_contexts', list: 'sandbox_id' }, record.sandboxId, record.createdAt),
        deleted_at: record.deletedAt ?? null,
        idempotency_record_id: record.idempotencyRecordId ?? null,
      })
      .onConflict((conflict) => conflict.doNothing())
      .returning('created_at')
      .executeTakeFirst();
    return row && { ...record, createdAt: row.created_at };
  }

  async find(sandboxId: SandboxId, id: string): Promise<ContextRecord | undefined> {
    return this.#found.find(`${sandboxId} ${id}`, async () => {
      const [row] = (await this.#findById({ sandboxId, id })).rows;
      return row && toContextRecord(row);
    });
  }

  async findByIdempotencyRecord(sandboxId: SandboxId, recordId: string): Promise<ContextRecord | undefined> {
    const row = await this.#of(sandboxId).where('idempotency_record_id', '=', recordId).executeTakeFirst();
    return row && toContextRecord(row);
  }

  async findDefault(sandboxId: SandboxId, language: Language): Promise<ContextRecord | undefined> {
    return this.#foundDefaults.find(`${sandboxId} ${language}`, async () => {
      const [row] = (await this.#findDefault({ sandboxId, language })).rows;
      return row && toContextRecord(row);
    });
  }

  async list(sandboxId: SandboxId, part: ListPart): Promise<ContextRecord[]> {
    const query = this.#of(sandboxId).where('deleted_at', 'is', null);
    return (await readPart(query, OLDEST_FIRST, part)).map(toContextRecord);
  }

  async listDeleted(sandboxId: SandboxId, since: number): Promise<ContextId[]> {
    const rows = await this.#of(sandboxId).where('deleted_at', '>=', since).execute();
    return rows.map(({ id }) => id as ContextId);
  }

  async enter(id: ContextId, generation: number): Promise<boolean> {
    const { numUpdatedRows } = await this.#db
      .updateTable('code_contexts')
      .set({ generation })
      .where('id', '=', id)
      .where('generation', '<', generation)
      .executeTakeFirst();
    return numUpdatedRows > 0n;
  }

  async markDeleted(id: ContextId, at: number, tx?: Transaction): Promise<ContextRecord | undefined> {
    const row = await (tx?.db ?? this.#db)
      .updateTable('code_contexts')
      .set({ deleted_at: at })
      .where('id', '=', id)
      .where('deleted_at', 'is', null)
      .returningAll()
      .executeTakeFirst();
    return row && toContextRecord(row);
  }

  async remove(id: ContextId, attempt: Attempt | undefined): Promise<boolean> {
    const later = this.#db
      .selectFrom('idempotency_records')
      .select('id')
      .where('id', '=', attempt?.recordId ?? '');
    const { numDeletedRows } = await this.#db
      .deleteFrom('code_contexts')
      .where('id', '=', id)
      .where(({ not, exists }) => not(exists(later.where('claim', '>', attempt?.claim ?? 0))))
      .executeTakeFirst();
    return numDeletedRows > 0n;
  }

  #of(sandboxId: SandboxId) {
    return this.#db.selectFrom('code_contexts').selectAll().where('sandbox_id', '=', sandboxId);
  }
}

/** Converts a row. The casts are sound because only this repository writes these columns. */
export function toContextRecord(row: Selectable<CodeContextTable>): ContextRecord {
  return {
    id: row.id as ContextId,
    sandboxId: row.sandbox_id as SandboxId,
    generation: row.generation,
    language: row.language as Language,
    cwd: row.cwd,
    isDefault: row.is_default === 1,
    timeoutMs: row.timeout_ms ?? undefined,
    createdAt: row.created_at,
    deletedAt: row.deleted_at ?? undefined,
    idempotencyRecordId: row.idempotency_record_id ?? undefined,
  };
}
