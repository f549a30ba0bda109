/** What Kysely's SQLite dialect asks of a driver, on top of the SQLite that Node has built in. */
import { DatabaseSync, type SQLInputValue, type StatementSync } from 'node:sqlite';
import type { SqliteDatabase, SqliteStatement } from 'kysely';
import { type CheckpointSettings, Checkpoints } from './checkpoints.ts';

/** More texts than the service has; one made of a list of values of changing length must not grow the cache for ever. */
const STATEMENTS_KEPT = 256;
const IN_MEMORY = ':memory:';
/** Without a thread that does it, whoever writes brings the log into the file whenever it has so many pages. */
const OWN_CHECKPOINT_PAGES = 1000;
/** The same for a log that the thread does not keep short, as writes never pause. */
const LATE_CHECKPOINT_PAGES = 16_000;
const WRITES = /^\s*(insert|update|delete|replace)\b/i;
const READS = /^\s*(select|pragma|begin|commit|rollback)\b/i;
/** Written by every request, and by what tells that this server lives; nobody looks anything up in them. */
const NEVER_LOOKED_UP = /^\s*(insert into|update|delete from) "(idempotency_records|server_leases)"/i;

/**
 * Keeps prepared statements by their text. Kysely lets one query at a time use the connection, so no statement is
 * ever in use twice.
 */
export class NodeSqliteDatabase implements SqliteDatabase {
  readonly #database: DatabaseSync;
  readonly #statements = new Map<string, NodeSqliteStatement>();
  readonly #checkpoints: Checkpoints | undefined;
  #version = 0;
  #isTransacting = false;

  /** `file` is a path or `:memory:`. */
  constructor(file: string, checkpoints?: Omit<CheckpointSettings, 'onFailure'>) {
    this.#database = new DatabaseSync(file, { timeout: 5000, enableForeignKeyConstraints: true });
    this.#database.exec('pragma journal_mode = wal; pragma synchronous = normal');
    if (file === IN_MEMORY) return;
    this.#database.exec(`pragma wal_autocheckpoint = ${LATE_CHECKPOINT_PAGES}`);
    const onFailure = () => this.#database.exec(`pragma wal_autocheckpoint = ${OWN_CHECKPOINT_PAGES}`);
    this.#checkpoints = new Checkpoints(file, { ...checkpoints, onFailure });
  }

  /** Between a `begin` and its end; not for what `transact` executes, which nobody else's comes between. */
  get isInTransaction(): boolean {
    return this.#database.isTransaction && !this.#isTransacting;
  }

  /** Executes all that `act` does in one transaction, which it undoes if `act` throws. Not while there is another. */
  transact(act: () => void): void {
    this.#database.exec('begin immediate');
    this.#isTransacting = true;
    try {
      act();
      this.#database.exec('commit');
    } catch (error) {
      if (this.#database.isTransaction) this.#database.exec('rollback');
      throw error;
    } finally {
      this.#isTransacting = false;
    }
  }

  /** Another one after every statement that may change what a look-up finds. */
  get version(): number {
    return this.#version;
  }

  prepare(sql: string): NodeSqliteStatement {
    const kept = this.#statements.get(sql);
    if (kept) return kept;
    if (this.#statements.size >= STATEMENTS_KEPT) this.#statements.clear();
    const statement = new NodeSqliteStatement(this.#database.prepare(startingAsWriter(sql)), this.#effectOf(sql));
    this.#statements.set(sql, statement);
    return statement;
  }

  /** What every execution of `sql` brings about here. */
  #effectOf(sql: string): () => void {
    const writes = WRITES.test(sql);
    const isLookedUp = !READS.test(sql) && !NEVER_LOOKED_UP.test(sql);
    return () => {
      if (writes) this.#checkpoints?.wrote();
      if (isLookedUp) this.#version++;
    };
  }

  close(): void {
    this.#statements.clear();
    this.#checkpoints?.close();
    this.#database.close();
  }
}

/** A transaction that reads first and then writes would fail, not wait, if another process wrote in between. */
function startingAsWriter(sql: string): string {
  return sql === 'begin' ? 'begin immediate' : sql;
}

export class NodeSqliteStatement implements SqliteStatement {
  readonly reader: boolean;
  readonly #statement: StatementSync;
  readonly #onExecution: () => void;

  constructor(statement: StatementSync, onExecution: () => void) {
    this.#statement = statement;
    this.#onExecution = onExecution;
    this.reader = statement.columns().length > 0;
  }

  all(parameters: readonly unknown[]): unknown[] {
    this.#onExecution();
    return this.#statement.all(...bindable(parameters));
  }

  run(parameters: readonly unknown[]): { changes: number | bigint; lastInsertRowid: number | bigint } {
    this.#onExecution();
    return this.#statement.run(...bindable(parameters));
  }

  iterate(parameters: readonly unknown[]): IterableIterator<unknown> {
    this.#onExecution();
    return this.#statement.iterate(...bindable(parameters));
  }
}

/** Kysely's types let nothing else through; what SQLite cannot bind it refuses itself. */
function bindable(parameters: readonly unknown[]): SQLInputValue[] {
  return parameters as SQLInputValue[];
}
