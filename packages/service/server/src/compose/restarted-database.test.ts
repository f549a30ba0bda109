/** Requests without pause while PostgreSQL restarts. It is a server of this file's own, as others use that of all tests. */
import assert from 'node:assert/strict';
import { after, before, describe, it, type TestContext } from 'node:test';
import { eventually } from '@cloche/testkit/eventually';
import type { PostgresPoolClient } from 'kysely';
import {
  createEmptyDatabase,
  openSuperuser,
  type PostgresServer,
  type Shutdown,
  startPostgres,
  urlOf,
} from '../../testing/postgres/postgres-server.ts';
import { NEEDS_POSTGRES } from '../../testing/servers.ts';
import { replace } from '../../testing/simulation/replace.ts';
import { WholeServers } from '../../testing/whole-servers.ts';
import { AppError } from '../platform/base/app-error.ts';
import { LEASE_MS } from '../platform/base/fence.ts';
import { PostgresPool } from '../platform/db/postgres/postgres-pool.ts';

const SERVERS = 2;
const CLIENTS = 8;
/** Successes of a server under load before PostgreSQL restarts. */
const SUCCESSES = 20;
const RECOVERY_MS = 5_000;
/** Two heartbeats of a server, after which a key that was cut off can be used again at the latest. */
const TWO_BEATS_MS = LEASE_MS / 3;
const LONGEST_ANSWER_MS = 10_000;
const PATIENCE_MS = 60_000;
const UNAVAILABLE = '503 unavailable, Retry-After';
/** A claim whose commit was not answered is given up by a later beat of its server. */
const IN_PROGRESS = '409 idempotency_request_in_progress, Retry-After';

/** Clients that create sandboxes without pause, each on one server, and repeat with its key what fails. */
class Load {
  readonly failures = new Set<string>();
  readonly ids: string[] = [];
  readonly #servers: WholeServers;
  readonly #successes: number[] = new Array(SERVERS).fill(0);
  readonly #clients: Promise<void>[];
  #isOver = false;
  #probes = 0;
  longestMs = 0;

  constructor(servers: WholeServers) {
    this.#servers = servers;
    this.#clients = Array.from({ length: CLIENTS }, (_, client) => this.#run(client));
  }

  /** Resolves when every server has created several sandboxes from now on. */
  async flows(): Promise<void> {
    this.#successes.fill(0);
    const isFlowing = () => this.#successes.every((successes) => successes >= SUCCESSES);
    await eventually(isFlowing, { because: 'every server creates sandboxes' });
  }

  /** Resolves when every server has executed a request with a new key. */
  async accepts(within = PATIENCE_MS): Promise<void> {
    const accepting = new Set<number>();
    const accept = async () => {
      for (let server = 0; server < SERVERS; server += 1) {
        this.#probes += 1;
        if (await this.#create(server, `probe ${this.#probes}`)) accepting.add(server);
      }
      return accepting.size === SERVERS;
    };
    await eventually(accept, { within, because: 'every server accepts new requests' });
  }

  /** Resolves when each request of the load has succeeded. */
  async end(): Promise<void> {
    this.#isOver = true;
    await Promise.all(this.#clients);
  }

  async #run(client: number): Promise<void> {
    const server = client % SERVERS;
    for (let count = 0; !this.#isOver; count += 1) {
      const key = `client ${client}, sandbox ${count}`;
      await eventually(() => this.#create(server, key), { because: 'a repeated request succeeds' });
    }
  }

  async #create(server: number, key: string): Promise<boolean> {
    const from = performance.now();
    const { status, headers, body } = await this.#servers.call(server, 'POST', '/v1/sandboxes', {}, key);
    this.longestMs = Math.max(this.longestMs, performance.now() - from);
    if (status !== 201) {
      this.failures.add(`${status} ${body.error.code}${headers.has('retry-after') ? ', Retry-After' : ''}`);
      return false;
    }
    this.ids.push(body.sandbox.id);
    this.#successes[server] = (this.#successes[server] ?? 0) + 1;
    return true;
  }
}

/** Has lost connections reported as they are, and not as `unavailable`. Returns the function that undoes it. */
function reportRawFailures(): () => void {
  const raw = (error: unknown) => Promise.reject(error instanceof AppError ? error.cause : error);
  const { connect } = PostgresPool.prototype;
  return replace(PostgresPool.prototype, {
    async connect(this: PostgresPool): Promise<PostgresPoolClient> {
      const client = await connect.call(this).catch(raw);
      // Sound: servers use no cursors.
      const query = (sql: string, values: unknown[]) => client.query(sql, values).catch(raw);
      return { release: client.release, query: query as PostgresPoolClient['query'] };
    },
  });
}

/** Has pools give out lost connections again. Returns the function that undoes it. */
function keepLostConnections(): () => void {
  const kept = new Map<PostgresPool, PostgresPoolClient[]>();
  const taken: PostgresPoolClient[] = [];
  const { connect } = PostgresPool.prototype;
  const restore = replace(PostgresPool.prototype, {
    async connect(this: PostgresPool): Promise<PostgresPoolClient> {
      const free = kept.get(this) ?? [];
      kept.set(this, free);
      const client = free.pop() ?? (await connect.call(this));
      if (!taken.includes(client)) taken.push(client);
      return { query: client.query, release: () => void free.push(client) };
    },
  });
  return () => {
    restore();
    for (const client of taken) client.release(true);
  };
}

describe('servers whose PostgreSQL restarts under load', { skip: NEEDS_POSTGRES }, () => {
  let postgres: PostgresServer;

  before(async () => {
    postgres = await startPostgres();
  });
  after(() => postgres.close());

  async function openLoad(database: string, opened: AsyncDisposableStack): Promise<Load> {
    await createEmptyDatabase(postgres.sockets, database);
    const servers = opened.use(await WholeServers.openFor(urlOf(postgres.sockets, database), SERVERS));
    const load = new Load(servers);
    opened.defer(() => load.end());
    await load.flows();
    return load;
  }

  async function createdIn(database: string): Promise<string[]> {
    const client = await openSuperuser(postgres.sockets, database);
    const { rows } = await client.query('select id from sandboxes');
    await client.end();
    return rows.map(({ id }) => id);
  }

  async function survives(shutdown: Shutdown, t: TestContext): Promise<void> {
    await using opened = new AsyncDisposableStack();
    const load = await openLoad(shutdown, opened);
    await postgres.restart(shutdown);
    const restartedAt = performance.now();
    await load.accepts();
    const recoveredMs = performance.now() - restartedAt;
    await load.end();
    const repeatedMs = performance.now() - restartedAt;
    t.diagnostic(
      `recovered ${Math.round(recoveredMs)} ms after PostgreSQL, keys that were cut off after ${Math.round(repeatedMs)} ms; ` +
        `${load.ids.length} sandboxes; longest answer ${Math.round(load.longestMs)} ms; ${[...load.failures].join('; ')}`,
    );
    assert.ok(recoveredMs < RECOVERY_MS, `recovered after ${recoveredMs} ms`);
    assert.ok(repeatedMs < TWO_BEATS_MS, `keys can be used after ${repeatedMs} ms`);
    assert.ok(load.longestMs < LONGEST_ANSWER_MS, `an answer took ${load.longestMs} ms`);
    assert.ok(load.failures.delete(UNAVAILABLE), 'the restart has met requests');
    load.failures.delete(IN_PROGRESS);
    assert.deepEqual([...load.failures], []);
    assert.deepEqual((await createdIn(shutdown)).toSorted(), load.ids.toSorted());
  }

  it('answer with retryable errors alone, create each sandbox once, and recover within 5 s of a fast shutdown', (t) =>
    survives('fast', t));

  it('answer with retryable errors alone, create each sandbox once, and recover within 5 s of an immediate shutdown', (t) =>
    survives('immediate', t));

  it('answer with errors that no client repeats if the failures of connections are not told apart: the control', async (t) => {
    await using opened = new AsyncDisposableStack();
    const load = await openLoad('raw', opened);
    opened.defer(reportRawFailures());
    await postgres.restart('fast');
    await load.accepts();
    t.diagnostic([...load.failures].join('; '));
    assert.ok(load.failures.has('500 internal'));
  });

  it('servers whose PostgreSQL restarts under load do not recover if lost connections stay in the pool: the control', async (t) => {
    await using opened = new AsyncDisposableStack();
    const load = await openLoad('kept', opened);
    opened.defer(keepLostConnections());
    await load.flows();
    await postgres.restart('fast');
    await assert.rejects(load.accepts(RECOVERY_MS), /every server accepts new requests/);
    t.diagnostic([...load.failures].join('; '));
  });

  it('servers whose PostgreSQL restarts under load stop completely although PostgreSQL is gone', async () => {
    const own = await startPostgres();
    await using opened = new AsyncDisposableStack();
    opened.defer(() => own.close());
    await createEmptyDatabase(own.sockets, 'gone');
    const servers = opened.use(await WholeServers.openFor(urlOf(own.sockets, 'gone'), 1));
    assert.equal((await servers.call(0, 'GET', '/v1/sandboxes')).status, 200);
    await own.close();
    await servers.stop();
    await assert.rejects(servers.call(0, 'GET', '/v1/sandboxes'), { message: 'fetch failed' });
  });
});
