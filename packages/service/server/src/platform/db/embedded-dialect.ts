import { type CompiledQuery, type DatabaseConnection, SqliteAdapter, SqliteDialect, SqliteDriver } from 'kysely';
import type { NodeSqliteDatabase } from './node-sqlite.ts';
import { Transaction } from './transactions.ts';
import { writtenTables } from './written-tables.ts';

/** Kysely's SQLite dialect, whose driver tells the database which tables each query writes. */
export class EmbeddedDialect extends SqliteDialect {
  readonly #database: NodeSqliteDatabase;
  readonly #isJoined: boolean;

  /** @param queries `joined` for queries of the transaction that holds the connection, and only for these */
  constructor(database: NodeSqliteDatabase, queries: 'separate' | 'joined') {
    super({ database });
    this.#database = database;
    this.#isJoined = queries === 'joined';
  }

  override createDriver(): SqliteDriver {
    return new EmbeddedDriver(this.#database, this.#isJoined);
  }

  override createAdapter(): SqliteAdapter {
    return new EmbeddedAdapter();
  }
}

class EmbeddedAdapter extends SqliteAdapter {
  /** Disables Kysely's lock over the connection, because `EmbeddedDriver` has its own, which can refuse a caller. */
  override get supportsMultipleConnections(): boolean {
    return true;
  }

  /**
   * Makes the migrator use one transaction, so that a start that is interrupted can be repeated
   * (interrupted-migrations.test.ts). Kysely says false, although SQLite rolls back changes of tables.
   */
  override get supportsTransactionalDdl(): boolean {
    return true;
  }
}

class EmbeddedDriver extends SqliteDriver {
  readonly #database: NodeSqliteDatabase;
  /** Whether queries use the connection that the transaction of the caller holds. */
  readonly #isJoined: boolean;

  constructor(database: NodeSqliteDatabase, isJoined: boolean) {
    super({ database });
    this.#database = database;
    this.#isJoined = isJoined;
  }

  override async acquireConnection(): Promise<DatabaseConnection> {
    if (this.#isJoined) Transaction.assertOpen();
    else {
      Transaction.assertNone();
      await this.#database.lock.acquire();
    }
    return new EmbeddedConnection(await super.acquireConnection(), this.#database);
  }

  override async releaseConnection(): Promise<void> {
    if (!this.#isJoined) this.#database.lock.release();
  }

  override async beginTransaction(): Promise<void> {
    this.#database.begin();
  }

  override async commitTransaction(): Promise<void> {
    this.#database.commit();
  }

  override async rollbackTransaction(): Promise<void> {
    this.#database.rollback();
  }
}

class EmbeddedConnection implements DatabaseConnection {
  readonly #connection: DatabaseConnection;
  readonly #database: NodeSqliteDatabase;

  constructor(connection: DatabaseConnection, database: NodeSqliteDatabase) {
    this.#connection = connection;
    this.#database = database;
  }

  async executeQuery<Row>(query: CompiledQuery) {
    // The inner connection prepares the same text again and gets the statement that is cached here.
    this.#database.prepare(query.sql, () => writtenTables(query.query));
    return this.#connection.executeQuery<Row>(query);
  }

  streamQuery<Row>(query: CompiledQuery, chunkSize: number) {
    return this.#connection.streamQuery<Row>(query, chunkSize);
  }
}
