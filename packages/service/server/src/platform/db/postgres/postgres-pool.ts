/** Implements the pool interface of Kysely's PostgreSQL dialect with `pg`. */
import { reportFailure } from '@cloche/node-support';
import {
  HandleEmptyInListsPlugin,
  Kysely,
  type PostgresPool as KyselyPool,
  PostgresDialect,
  type PostgresPoolClient,
  type PostgresQueryResult,
  replaceWithNoncontingentExpression,
} from 'kysely';
import { type Client, Pool, type PoolClient, types } from 'pg';
import type { Database, Tables } from '../database.ts';
import type { PostgresStatements } from '../postgres-database.ts';
import { Transaction } from '../transactions.ts';
import { isStalePlan, passingFailure } from './postgres-errors.ts';
import { PostgresNotifications } from './postgres-notifications.ts';

/** PostgreSQL itself takes 100 by default, from all of its clients together. */
const MAX_CONNECTIONS = 16;
/** Time to get a connection: a free one, or a new one. */
const CONNECT_MS = 5_000;
/** Time after which the server cancels a statement. */
const STATEMENT_MS = 30_000;
/**
 * Time after which a connection counts as lost: the server has not even answered with the cancellation of the
 * statement.
 */
const ANSWER_MS = 40_000;
/**
 * Time after which PostgreSQL rolls back an idle transaction and releases its locks, because the process that began it
 * has stopped. Far less than `STATEMENT_MS`, so that requests that wait for the locks succeed.
 */
const IDLE_TRANSACTION_MS = 5_000;
/** Limit in migrations, which may compute between their statements. */
const IDLE_MIGRATION_MS = 30_000;
const IDLE_CONNECTION_MS = 60_000;

/**
 * Returns the statements that set up a new connection. They set the limits by `set`, because PgBouncer refuses limits
 * as connection parameters. The repositories' locks are sufficient for the isolation level that they set, which may
 * differ from PostgreSQL's default.
 */
const sessionOf = (statementMs: number) =>
  'set session characteristics as transaction isolation level read committed; ' +
  `set statement_timeout = ${statementMs}; set idle_in_transaction_session_timeout = ${IDLE_TRANSACTION_MS}`;

/** Type ids of `bigint`, and of `numeric`, which is the type of sums of `bigint`. */
const NUMBER_TYPES: readonly number[] = [20, 1700];

interface PoolOptions {
  readonly connections?: number;
  /** Longest time for the answer to a statement. */
  readonly answerMs?: number;
}

/**
 * Connections to a PostgreSQL server. A lost connection is replaced by the next query. A statement that was named runs
 * as a prepared one, which each connection parses and plans once.
 */
export class PostgresPool implements KyselyPool, PostgresStatements {
  readonly options = {};
  readonly #url: string;
  readonly #pool: Pool;
  readonly #names = new Map<string, string>();
  /**
   * Counts, for each connection, how often its prepared statements became invalid because tables changed. Part of the
   * statements' names, so that they are prepared again.
   */
  readonly #planVersions = new WeakMap<PoolClient, number>();
  readonly #answerMs: number;
  #hasLimits = true;

  constructor(url: string, { connections = MAX_CONNECTIONS, answerMs = ANSWER_MS }: PoolOptions = {}) {
    this.#url = url;
    this.#answerMs = answerMs;
    const session = sessionOf(Math.min(STATEMENT_MS, answerMs));
    this.#pool = new Pool({
      connectionString: url,
      max: connections,
      connectionTimeoutMillis: CONNECT_MS,
      idleTimeoutMillis: IDLE_CONNECTION_MS,
      keepAlive: true,
      // A pooler accepts a connection before it has one to PostgreSQL. The first statement then waits for that one.
      onConnect: async (client) => {
        // Sound: the pool makes its clients of this class.
        await within(CONNECT_MS, client as Client, () => client.query(session));
      },
      application_name: 'cloche',
      types: {
        getTypeParser: (oid, format) => (NUMBER_TYPES.includes(oid) ? toNumber : types.getTypeParser(oid, format)),
      },
    });
    // The pool removes a connection that was lost, and its query rejects. Without listeners the process would end.
    this.#pool.on('error', () => undefined);
    this.#pool.on('connect', (client) => {
      client.on('error', () => undefined);
    });
  }

  /** Makes `sql` a prepared statement from now on. */
  name(sql: string): void {
    if (!this.#names.has(sql)) this.#names.set(sql, `cloche_${this.#names.size}`);
  }

  /** @throws AppError `unavailable` while the server does not answer, or while all connections are in use */
  async connect(): Promise<PostgresPoolClient> {
    Transaction.assertNone();
    const client = await this.#pool.connect().catch((error: unknown) => {
      throw passingFailure(error) ?? error;
    });
    const isUnlimited = !this.#hasLimits;
    if (isUnlimited)
      await client.query(`set statement_timeout = 0; set idle_in_transaction_session_timeout = ${IDLE_MIGRATION_MS}`);
    // Sound: Kysely passes texts, and cursors only to dialects that have them.
    const query = (sql: string, values: readonly unknown[]) => this.#query(client, sql, values, isUnlimited);
    return {
      query: query as PostgresPoolClient['query'],
      release: (isBroken) => client.release(isBroken || isUnlimited),
    };
  }

  /**
   * Calls `act`. Statements meanwhile have no time limit, and every connection that is opened meanwhile is closed after
   * its use.
   */
  async withoutLimits<T>(act: () => Promise<T>): Promise<T> {
    this.#hasLimits = false;
    try {
      return await act();
    } finally {
      this.#hasLimits = true;
    }
  }

  openOwnConnection(answerMs: number): Database {
    return kyselyOf(new PostgresPool(this.#url, { connections: 1, answerMs }));
  }

  openNotifications(): PostgresNotifications {
    return new PostgresNotifications({ connectionString: this.#url });
  }

  end(): Promise<void> {
    return this.#pool.end();
  }

  async #query(
    client: PoolClient,
    text: string,
    values: readonly unknown[],
    isUnlimited: boolean,
  ): Promise<PostgresQueryResult<unknown>> {
    const execute = () => this.#execute(client, text, values.map(storable));
    try {
      return await (isUnlimited ? execute() : within(this.#answerMs, client, execute));
    } catch (error) {
      throw passingFailure(error) ?? error;
    }
  }

  async #execute(client: PoolClient, text: string, values: unknown[]): Promise<PostgresQueryResult<unknown>> {
    const name = this.#names.get(text);
    if (name === undefined) return sound(await client.query(text, values));
    const version = this.#planVersions.get(client) ?? 0;
    try {
      return sound(await client.query({ name: `${name}_${version}`, text, values }));
    } catch (error) {
      if (!isStalePlan(error)) throw error;
      this.#planVersions.set(client, version + 1);
      // Inside a transaction, the failure has aborted the transaction.
      if (client.getTransactionStatus() !== 'I') throw error;
      return sound(await client.query({ name: `${name}_${version + 1}`, text, values }));
    }
  }
}

/** Returns the database of a pool's connections. */
export function kyselyOf(pool: PostgresPool): Database {
  // PostgreSQL refuses an empty list, which SQLite takes.
  const emptyLists = new HandleEmptyInListsPlugin({ strategy: replaceWithNoncontingentExpression });
  return new Kysely<Tables>({ dialect: new PostgresDialect({ pool }), plugins: [emptyLists] });
}

/** Ends the connection after `ms`, which makes the query of `act` reject. The pool then removes the connection. */
async function within<T>(ms: number, client: Client, act: () => Promise<T>): Promise<T> {
  const limit = setTimeout(() => client.end().catch(reportFailure), ms);
  try {
    return await act();
  } finally {
    clearTimeout(limit);
  }
}

/** Sound: Kysely's type names the commands that it knows, and it treats all others as a query without effect. */
function sound(result: { command: string; rowCount: number | null; rows: unknown[] }): PostgresQueryResult<unknown> {
  return result as PostgresQueryResult<unknown>;
}

/**
 * Replaces NUL, which PostgreSQL cannot store in texts. NUL can come from guests, receivers of webhooks and request
 * paths. JSON is not affected, because it escapes NUL.
 */
function storable(value: unknown): unknown {
  return typeof value === 'string' && value.includes('\0') ? value.replaceAll('\0', '\u{fffd}') : value;
}

function toNumber(text: string): number {
  const number = Number(text);
  if (Math.abs(number) > Number.MAX_SAFE_INTEGER) throw new RangeError(`${text} of the database exceeds 2^53`);
  return number;
}
