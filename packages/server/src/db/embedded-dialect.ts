import { type CompiledQuery, type DatabaseConnection, SqliteAdapter, SqliteDialect, SqliteDriver } from 'kysely';
import { ConnectionLock } from './connection-lock.ts';
import type { NodeSqliteDatabase } from './node-sqlite.ts';
import { Transaction } from './transactions.ts';
import { writtenTables } from './written-tables.ts';

/** Kysely's SQLite dialect, whose driver tells the database which tables each query writes. */
export class EmbeddedDialect extends SqliteDialect {
  readonly #database: NodeSqliteDatabase;

  constructor(database: NodeSqliteDatabase) {
    super({ database });
    this.#database = database;
  }

  override createDriver(): SqliteDriver {
    return new EmbeddedDriver(this.#database);
  }

  override createAdapter(): SqliteAdapter {
    return new EmbeddedAdapter();
  }
}

/** Turns off Kysely's lock over the connection: `EmbeddedDriver` has one that can refuse a caller. */
class EmbeddedAdapter extends SqliteAdapter {
  override get supportsMultipleConnections(): boolean {
    return true;
  }
}

class EmbeddedDriver extends SqliteDriver {
  readonly #database: NodeSqliteDatabase;
  readonly #lock = new ConnectionLock();

  constructor(database: NodeSqliteDatabase) {
    super({ database });
    this.#database = database;
  }

  override async acquireConnection(): Promise<DatabaseConnection> {
    Transaction.assertNone();
    await this.#lock.acquire();
    return new EmbeddedConnection(await super.acquireConnection(), this.#database);
  }

  override async releaseConnection(): Promise<void> {
    this.#lock.release();
  }

  override beginTransaction(connection: DatabaseConnection): Promise<void> {
    this.#database.prepare('begin', writesNothing);
    return super.beginTransaction(connection);
  }

  override commitTransaction(connection: DatabaseConnection): Promise<void> {
    this.#database.prepare('commit', writesNothing);
    return super.commitTransaction(connection);
  }

  override async rollbackTransaction(connection: DatabaseConnection): Promise<void> {
    // SQLite rolls back by itself after some errors, such as a full disk.
    if (!this.#database.isInTransaction) return;
    this.#database.prepare('rollback', writesNothing);
    await super.rollbackTransaction(connection);
  }
}

const writesNothing = () => [];

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
