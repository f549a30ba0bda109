import { type CompiledQuery, type DatabaseConnection, SqliteDialect, SqliteDriver } from 'kysely';
import type { NodeSqliteDatabase } from './node-sqlite.ts';
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
}

class EmbeddedDriver extends SqliteDriver {
  readonly #database: NodeSqliteDatabase;

  constructor(database: NodeSqliteDatabase) {
    super({ database });
    this.#database = database;
  }

  override async acquireConnection(): Promise<DatabaseConnection> {
    return new EmbeddedConnection(await super.acquireConnection(), this.#database);
  }

  override beginTransaction(connection: DatabaseConnection): Promise<void> {
    this.#database.prepare('begin', writesNothing);
    return super.beginTransaction(connection);
  }

  override commitTransaction(connection: DatabaseConnection): Promise<void> {
    this.#database.prepare('commit', writesNothing);
    return super.commitTransaction(connection);
  }

  override rollbackTransaction(connection: DatabaseConnection): Promise<void> {
    this.#database.prepare('rollback', writesNothing);
    return super.rollbackTransaction(connection);
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
