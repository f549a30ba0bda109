/** Servers whose hosts have wrong clocks. In the controls, a server goes by its own clock instead of the database's. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { ApiKeyId, OrgId } from '@cloche/contract';
import { sql } from 'kysely';
import { SILENT } from '../../testing/sandboxes.ts';
import { NEEDS_POSTGRES } from '../../testing/servers.ts';
import { replace } from '../../testing/simulation/replace.ts';
import { testDatabaseSettings } from '../../testing/test-database.ts';
import { WholeServers } from '../../testing/whole-servers.ts';
import { randomIds } from '../base/id-source.ts';
import { ServerLease } from '../cluster/server-lease.ts';
import { openDatabase } from '../db/open-database.ts';
import { HeldClaims } from '../idempotency/held-claims.ts';
import { Idempotency } from '../idempotency/idempotency.ts';
import { IdempotencyRepository } from '../idempotency/idempotency-repository.ts';

const SKEW_MS = 600_000;
const SKEWS = [-SKEW_MS, 0, SKEW_MS];
const TTL_MS = 60_000;
/** What the lifetime of a sandbox may be wrong by. */
const TOLERANCE_MS = 1_000;

async function newDatabase(): Promise<string> {
  const { CLOCHE_DATABASE_URL: url } = await testDatabaseSettings();
  return url ?? assert.fail();
}

/** Returns the URL of connections to which the database gives the time of a host whose clock is wrong. */
async function urlWithClock(url: string, skewMs: number): Promise<string> {
  const schema = `clock_${SKEWS.indexOf(skewMs)}`;
  await using db = await openDatabase(url);
  await sql`create schema ${sql.id(schema)}`.execute(db);
  for (const name of ['clock_timestamp', 'statement_timestamp']) {
    await sql`
      create function ${sql.id(schema, name)}() returns timestamptz language sql stable
      as ${sql.lit(`select pg_catalog.${name}() + interval '${skewMs} ms'`)}`.execute(db);
  }
  return `${url}&options=${encodeURIComponent(`-c search_path=public,${schema},pg_catalog`)}`;
}

/** Opens a server's part in claims, with connections and a clock of its own. */
async function openClaims(url: string, index: number, opened: AsyncDisposableStack) {
  const db = opened.use(await openDatabase(url));
  const [records, held, serverId] = [new IdempotencyRepository(db), new HeldClaims(), `srv_clock_${index}`];
  const clock = { now: () => Date.now() + (SKEWS[index] ?? 0) };
  const files = { removeExpired: async () => undefined };
  const lease = new ServerLease({ db, records, held, files, serverId, version: '1', clock, log: SILENT });
  await lease.beat();
  const idempotency = new Idempotency(records, serverId, clock, randomIds, {}, held);
  const scope = { orgId: 'org_1' as OrgId, apiKeyId: 'key_1' as ApiKeyId, method: 'POST', route: '/v1/x' };
  return (key: string) => idempotency.open({ ...scope, key }, {});
}

/** Lets each of three servers claim keys that the others then claim too. Returns the servers that lose theirs. */
async function losersOf(urls: readonly string[]): Promise<number[]> {
  await using opened = new AsyncDisposableStack();
  const servers = await Promise.all(urls.map((url, index) => openClaims(url, index, opened)));
  const losers: number[] = [];
  for (const [index, open] of servers.entries()) {
    for (const other of servers) {
      if (other === open) continue;
      const key = `key ${index} ${servers.indexOf(other)}`;
      assert.equal((await open(key)).status, 'claimed');
      const again = await other(key).then(
        ({ status }) => status,
        ({ code }) => code,
      );
      if (again === 'claimed') losers.push(index);
      else assert.equal(again, 'idempotency_request_in_progress');
    }
  }
  return [...new Set(losers)];
}

/** Returns what the lifetime of a sandbox of this server is wrong by, by the clock of the database. */
async function errorOfLifetime(servers: WholeServers, server: number): Promise<number> {
  await using db = await openDatabase(servers.databaseUrl);
  const time = async () => {
    const { rows } = await sql<{ at: number }>`
      select (extract(epoch from clock_timestamp()) * 1000)::float8 as at`.execute(db);
    return rows[0]?.at ?? assert.fail();
  };
  const before = await time();
  const { body } = await servers.call(server, 'POST', '/v1/sandboxes', { ttlMs: TTL_MS });
  const after = await time();
  const end = Date.parse(body.sandbox.expiresAt) - TTL_MS;
  if (end < before) return end - before;
  return Math.max(0, end - after);
}

describe('servers of hosts with wrong clocks', { skip: NEEDS_POSTGRES }, () => {
  it('give sandboxes the right lifetime', async () => {
    await using servers = await WholeServers.open(SKEWS.length);
    const { now } = Date;
    for (const [server, skew] of SKEWS.entries()) {
      using restored = new DisposableStack();
      restored.defer(replace(Date, { now: () => now() + skew }));
      const error = await errorOfLifetime(servers, server);
      assert.ok(Math.abs(error) <= TOLERANCE_MS, `${error} ms`);
    }
  });

  it('give them a wrong one if they go by their own clocks: the control', async () => {
    await using servers = await WholeServers.open(1);
    for (const skew of [-SKEW_MS, SKEW_MS]) {
      const server = await servers.start(await urlWithClock(servers.databaseUrl, skew));
      const error = await errorOfLifetime(servers, server);
      assert.ok(Math.abs(error - skew) <= TOLERANCE_MS, `${error} ms`);
    }
  });

  it('keep their claims, and lose them if they go by their own clocks: the control', async () => {
    const url = await newDatabase();
    assert.deepEqual(await losersOf(SKEWS.map(() => url)), []);
    const other = await newDatabase();
    const urls: string[] = [];
    for (const skew of SKEWS) urls.push(await urlWithClock(other, skew));
    // The leases of servers whose clocks are slow have ended for those whose clocks are faster.
    assert.deepEqual(await losersOf(urls), [0, 1]);
  });
});
