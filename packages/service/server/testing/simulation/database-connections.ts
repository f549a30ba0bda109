/** The connections of one simulated server to the shared database, for Kysely. */
import {
  type CompiledQuery,
  type DatabaseConnection,
  type DatabaseIntrospector,
  type Dialect,
  type DialectAdapter,
  type Driver,
  Kysely,
  PostgresAdapter,
  PostgresIntrospector,
  type QueryCompiler,
  type QueryResult,
  SqliteQueryCompiler,
} from 'kysely';
import type { Database, Tables } from '../../src/platform/db/database.ts';
import { passingFailure } from '../../src/platform/db/postgres/postgres-errors.ts';
import { Transaction } from '../../src/platform/db/transactions.ts';
import type { Peer } from './faults.ts';
import { type Mechanism, rewritten } from './mechanisms.ts';
import type { Seams } from './seams.ts';
import type { SharedDatabase } from './shared-database.ts';
import type { VirtualTime } from './virtual-time.ts';

/** Time after which the database ends a transaction that stands still. PostgreSQL may end any connection at any time. */
const STANDING_MS = 2_000;

export interface DatabaseWorld {
  /** Mechanisms that are switched off. */
  readonly without: ReadonlySet<Mechanism>;
  readonly database: SharedDatabase;
  readonly seams: Seams;
  readonly time: VirtualTime;
}

/** Opens the database as `peer` has it. The product takes it for PostgreSQL, whose servers it has several of. */
export function openFor(peer: Peer, world: DatabaseWorld): { db: Database; close: () => void } {
  const driver = new SimulatedDriver(peer, world);
  const db = new Kysely<Tables>({ dialect: new SimulatedDialect(driver) });
  return { db, close: () => driver.closeAll() };
}

class SimulatedDialect implements Dialect {
  readonly #driver: Driver;

  constructor(driver: Driver) {
    this.#driver = driver;
  }

  createDriver(): Driver {
    return this.#driver;
  }

  createQueryCompiler(): QueryCompiler {
    return new SqliteQueryCompiler();
  }

  createAdapter(): DialectAdapter {
    return new PostgresAdapter();
  }

  createIntrospector(db: Kysely<unknown>): DatabaseIntrospector {
    return new PostgresIntrospector(db);
  }
}

class SimulatedDriver implements Driver {
  readonly #peer: Peer;
  readonly #world: DatabaseWorld;
  readonly #open = new Set<SimulatedConnection>();

  constructor(peer: Peer, world: DatabaseWorld) {
    this.#peer = peer;
    this.#world = world;
  }

  async init(): Promise<void> {}

  async acquireConnection(): Promise<SimulatedConnection> {
    Transaction.assertNone();
    const connection = new SimulatedConnection(this.#peer, this.#world);
    this.#open.add(connection);
    return connection;
  }

  beginTransaction(connection: SimulatedConnection): Promise<void> {
    return connection.begin();
  }

  commitTransaction(connection: SimulatedConnection): Promise<void> {
    return connection.end('commit');
  }

  rollbackTransaction(connection: SimulatedConnection): Promise<void> {
    return connection.end('rollback');
  }

  async releaseConnection(connection: SimulatedConnection): Promise<void> {
    this.#open.delete(connection);
  }

  async destroy(): Promise<void> {}

  /** Closes the connections of a process that has ended. */
  closeAll(): void {
    for (const connection of this.#open) connection.close();
    this.#open.clear();
  }
}

class SimulatedConnection implements DatabaseConnection {
  readonly #peer: Peer;
  readonly #world: DatabaseWorld;
  #isTransacting = false;
  #isClosed = false;

  constructor(peer: Peer, world: DatabaseWorld) {
    this.#peer = peer;
    this.#world = world;
  }

  async executeQuery<Row>({ sql, parameters }: CompiledQuery): Promise<QueryResult<Row>> {
    const { rows, changes } = await this.#send(labelOf(sql, parameters), async () => {
      const { database, without } = this.#world;
      const text = without.size === 0 ? sql : rewritten(sql, without);
      if (this.#isTransacting) return database.execute(text, parameters);
      await database.lock.acquire();
      try {
        return database.execute(text, parameters);
      } finally {
        database.lock.release();
      }
    });
    // Sound: the query was compiled from the tables of this database.
    return { rows: rows as Row[], numAffectedRows: changes };
  }

  // biome-ignore lint/correctness/useYield: nothing of the product streams rows
  async *streamQuery<Row>(): AsyncGenerator<QueryResult<Row>> {
    throw new Error('no query of a simulation streams rows');
  }

  begin(): Promise<void> {
    if (this.#world.without.has('transactions')) return Promise.resolve();
    return this.#send('begin', async () => {
      const { database, time } = this.#world;
      await database.lock.acquire();
      if (this.#isClosed) return database.lock.release();
      database.begin();
      this.#isTransacting = true;
      time.afterFor(undefined, STANDING_MS, `end of a transaction of ${this.#peer.name}`, () => this.close());
    });
  }

  end(how: 'commit' | 'rollback'): Promise<void> {
    if (this.#world.without.has('transactions') || (this.#isClosed && how === 'rollback')) return Promise.resolve();
    return this.#send(how, () => {
      this.#isTransacting = false;
      this.#world.database[how]();
      this.#world.database.lock.release();
    });
  }

  /** Ends the connection, as the database sees it: what is not committed never happened. */
  close(): void {
    this.#isClosed = true;
    if (!this.#isTransacting) return;
    this.#isTransacting = false;
    const { database, time } = this.#world;
    time.note(`rollback of ${this.#peer.name}`);
    database.rollback();
    database.lock.release();
  }

  #send<T>(label: string, act: () => T | Promise<T>): Promise<T> {
    const lost = () => connectionLost();
    if (this.#isClosed) return Promise.reject(lost());
    const perform = () => {
      if (this.#isClosed) throw lost();
      return act();
    };
    return this.#world.seams.call(this.#peer, 'database', label, perform, { lost, onLost: () => this.#lose() });
  }

  /** The database notices a broken connection some time later. */
  #lose(): void {
    this.#world.time.afterFor(undefined, 1, `connection of ${this.#peer.name} closed`, () => this.close());
  }
}

/** The error that servers get for a connection to PostgreSQL that was lost. */
function connectionLost(): Error {
  return passingFailure(new Error('Connection terminated unexpectedly')) ?? new Error('unreachable');
}

/** Returns the first words of a statement, with its parameters that tell rows apart. */
function labelOf(sql: string, parameters: readonly unknown[]): string {
  const [verb = '', ...rest] = sql.split(' ', 6);
  const table = [verb, ...rest].join(' ').match(/"([a-z_]+)"/)?.[1] ?? '';
  const ids = parameters.filter((value) => typeof value === 'string' && /^[a-z]+_\d+/.test(value) && value.length < 40);
  return `${verb} ${table} ${ids.join(' ')}`.trim();
}
