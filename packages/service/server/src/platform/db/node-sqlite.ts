/** Implements the driver interface of Kysely's SQLite dialect with the SQLite that is built into Node. */
import { DatabaseSync, type SQLInputValue, type StatementSync } from 'node:sqlite';
import type { SqliteDatabase, SqliteStatement } from 'kysely';
import { type CheckpointSettings, Checkpoints } from './checkpoints.ts';
import { ConnectionLock } from './connection-lock.ts';

/**
 * Most prepared statements kept, more than the service has. It bounds the cache against lists of values of varying
 * length.
 */
const STATEMENTS_KEPT = 256;
const IN_MEMORY = ':memory:';
/** Pages of the log at which a writer makes a checkpoint itself when the checkpoint thread has failed. */
const OWN_CHECKPOINT_PAGES = 1000;
/**
 * Pages of the log at which a writer makes a checkpoint although the thread runs, because writes never pause long
 * enough for the thread to shorten the log.
 */
const LATE_CHECKPOINT_PAGES = 16_000;

/**
 * Caches prepared statements by their text. Kysely runs one query at a time on the connection, so no statement is used
 * twice at the same time.
 */
export class NodeSqliteDatabase implements SqliteDatabase {
  /** Held by the query or the transaction that uses the connection. */
  readonly lock = new ConnectionLock();
  readonly #database: DatabaseSync;
  readonly #statements = new Map<string, NodeSqliteStatement>();
  readonly #checkpoints: Checkpoints | undefined;
  /**
   * Number of executed statements that wrote each table. `#versionOfAll` counts those that may have written any table.
   */
  readonly #versions = new Map<string, number>();
  #versionOfAll = 0;
  #isTransacting = false;

  /** @param file a path or `:memory:`. */
  constructor(file: string, checkpoints?: Omit<CheckpointSettings, 'onFailure'>) {
    this.#database = new DatabaseSync(file, { timeout: 5000, enableForeignKeyConstraints: true });
    this.#database.exec('pragma journal_mode = wal; pragma synchronous = normal');
    if (file === IN_MEMORY) return;
    this.#database.exec(`pragma wal_autocheckpoint = ${LATE_CHECKPOINT_PAGES}`);
    const onFailure = () => this.#database.exec(`pragma wal_autocheckpoint = ${OWN_CHECKPOINT_PAGES}`);
    this.#checkpoints = new Checkpoints(file, { ...checkpoints, onFailure });
  }

  /**
   * Whether a transaction is open. False during `transact`, which is synchronous and cannot interleave with
   * other queries.
   */
  get isInTransaction(): boolean {
    return this.#database.isTransaction && !this.#isTransacting;
  }

  /**
   * Executes `act` in one transaction and rolls it back if `act` throws. Must not be called during another transaction.
   */
  transact(act: () => void): void {
    this.begin();
    this.#isTransacting = true;
    try {
      act();
      this.commit();
    } catch (error) {
      this.rollback();
      throw error;
    } finally {
      this.#isTransacting = false;
    }
  }

  /**
   * Takes the write lock at once. A transaction that reads before it writes would otherwise fail, rather than wait, if
   * another process wrote in between.
   */
  begin(): void {
    this.prepare('begin immediate', writesNothing).run([]);
  }

  commit(): void {
    this.prepare('commit', writesNothing).run([]);
  }

  /** Does nothing if SQLite has rolled back by itself, as it does after some errors, such as a full disk. */
  rollback(): void {
    if (this.#database.isTransaction) this.prepare('rollback', writesNothing).run([]);
  }

  /** Returns a number that grows with every statement that may write one of `tables`. */
  versionOf(tables: readonly string[]): number {
    let version = this.#versionOfAll;
    for (const table of tables) version += this.#versions.get(table) ?? 0;
    return version;
  }

  /**
   * @param tablesOf returns the tables that `sql` writes; if it is absent or returns `undefined`, `sql` may write any
   * table
   */
  prepare(sql: string, tablesOf?: () => readonly string[] | undefined): NodeSqliteStatement {
    const kept = this.#statements.get(sql);
    if (kept) return kept;
    if (this.#statements.size >= STATEMENTS_KEPT) this.#statements.clear();
    const statement = new NodeSqliteStatement(this.#database.prepare(sql), this.#effectOf(tablesOf?.()));
    this.#statements.set(sql, statement);
    return statement;
  }

  /** Returns a function to call at each execution of a statement that writes `tables`. */
  #effectOf(tables: readonly string[] | undefined): () => void {
    if (tables?.length === 0) return () => undefined;
    return () => {
      this.#checkpoints?.wrote();
      if (tables === undefined) this.#versionOfAll++;
      else for (const table of tables) this.#versions.set(table, (this.#versions.get(table) ?? 0) + 1);
    };
  }

  close(): void {
    this.#statements.clear();
    this.#checkpoints?.close();
    this.#database.close();
  }
}

const writesNothing = () => [];

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

/** Sound: Kysely's types allow nothing else, and SQLite refuses a value that it cannot bind. */
function bindable(parameters: readonly unknown[]): SQLInputValue[] {
  return parameters as SQLInputValue[];
}
