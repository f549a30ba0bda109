/** A SQLite database in memory. The simulated servers share it in place of a PostgreSQL database. */
import { DatabaseSync, type SQLInputValue, type StatementSync } from 'node:sqlite';
import { ConnectionLock } from '../../src/platform/db/connection-lock.ts';
import type { VirtualTime } from './virtual-time.ts';

/** Statements kept prepared. */
const KEPT = 512;
/** Locks of rows are those of the whole database here: one transaction runs at a time. */
const LOCKS = / for (?:no key update|update|key share|share)(?: of "[a-z_]+")?(?: skip locked)?/g;
const TIMES = /\(extract\(epoch from (?:clock|statement)_timestamp\(\)\) \* 1000\)::(?:bigint|float8)/g;

interface Prepared {
  readonly statement: StatementSync;
  readonly isWriting: boolean;
  readonly hasRows: boolean;
}

export interface StatementResult {
  readonly rows: unknown[];
  readonly changes: bigint;
}

/**
 * Executes the statements of the servers. Transactions run one after the other: what two of them do to each other in
 * PostgreSQL at `read committed` is for the tests that run with PostgreSQL.
 */
export class SharedDatabase {
  /** Held by the transaction or the statement that is executed. */
  readonly lock = new ConnectionLock();
  /** Called after each commit, also of a single statement, if something was written. */
  onCommitted: () => void = () => undefined;
  readonly #database = new DatabaseSync(':memory:', { enableForeignKeyConstraints: true });
  readonly #statements = new Map<string, Prepared>();
  #hasWritten = false;

  /** @param image the contents, as `serialize` of another database gives them */
  constructor(image: Uint8Array, time: VirtualTime) {
    this.#database.deserialize(image);
    const define = (name: string, act: (...values: unknown[]) => SQLInputValue) =>
      this.#database.function(name, { varargs: true }, act);
    define('simulated_now', () => Math.floor(time.now()));
    // Advisory locks of a transaction: there is one transaction at a time.
    define('pg_advisory_xact_lock', () => null);
    define('hashtextextended', () => 0);
  }

  get isInTransaction(): boolean {
    return this.#database.isTransaction;
  }

  execute(sql: string, parameters: readonly unknown[]): StatementResult {
    const { statement, isWriting, hasRows } = this.#prepare(sql);
    // Sound: Kysely passes nothing else, and SQLite refuses what it cannot bind.
    const values = parameters as SQLInputValue[];
    this.#hasWritten ||= isWriting;
    const rows = hasRows ? statement.all(...values) : [];
    const changes = hasRows ? BigInt(rows.length) : BigInt(statement.run(...values).changes);
    if (!this.isInTransaction) this.#committed();
    return { rows, changes };
  }

  begin(): void {
    this.#database.exec('begin immediate');
  }

  commit(): void {
    this.#database.exec('commit');
    this.#committed();
  }

  rollback(): void {
    if (this.#database.isTransaction) this.#database.exec('rollback');
    this.#hasWritten = false;
  }

  /** Reads outside of any transaction, for the invariants. */
  read(sql: string, ...values: SQLInputValue[]): Record<string, unknown>[] {
    return this.#prepare(sql).statement.all(...values);
  }

  close(): void {
    this.#statements.clear();
    this.#database.close();
  }

  #committed(): void {
    if (!this.#hasWritten) return;
    this.#hasWritten = false;
    this.onCommitted();
  }

  #prepare(sql: string): Prepared {
    const kept = this.#statements.get(sql);
    if (kept) return kept;
    if (this.#statements.size >= KEPT) this.#statements.clear();
    const statement = this.#database.prepare(sql.replace(LOCKS, '').replace(TIMES, 'simulated_now()'));
    const isWriting = !/^\s*select/i.test(sql);
    const prepared = { statement, isWriting, hasRows: statement.columns().length > 0 };
    this.#statements.set(sql, prepared);
    return prepared;
  }
}
