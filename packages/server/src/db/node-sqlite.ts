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

/**
 * Keeps prepared statements by their text. Kysely lets one query at a time use the connection, so no statement is
 * ever in use twice.
 */
export class NodeSqliteDatabase implements SqliteDatabase {
  readonly #database: DatabaseSync;
  readonly #statements = new Map<string, NodeSqliteStatement>();
  readonly #checkpoints: Checkpoints | undefined;
  /** Counts the statements that wrote each table, and those that may have written any. */
  readonly #versions = new Map<string, number>();
  #versionOfAll = 0;
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

  /** Returns a number that grows with every statement that may write one of `tables`. */
  versionOf(tables: readonly string[]): number {
    let version = this.#versionOfAll;
    for (const table of tables) version += this.#versions.get(table) ?? 0;
    return version;
  }

  /** @param tablesOf the tables that `sql` writes; without it, or if it returns `undefined`, `sql` may write any */
  prepare(sql: string, tablesOf?: () => readonly string[] | undefined): NodeSqliteStatement {
    const kept = this.#statements.get(sql);
    if (kept) return kept;
    if (this.#statements.size >= STATEMENTS_KEPT) this.#statements.clear();
    const statement = new NodeSqliteStatement(
      this.#database.prepare(startingAsWriter(sql)),
      this.#effectOf(tablesOf?.()),
    );
    this.#statements.set(sql, statement);
    return statement;
  }

  /** Returns what to do at every execution of a statement that writes `tables`. */
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
