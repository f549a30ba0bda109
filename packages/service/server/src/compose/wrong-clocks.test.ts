/** Servers whose hosts have wrong clocks. In the controls, a server goes by its own clock instead of the database's. */
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { describe, it } from 'node:test';
import type { ApiKeyId, OrgId } from '@cloche/contract';
import { eventually } from '@cloche/testkit/eventually';
import { sql } from 'kysely';
import { NEEDS_POSTGRES } from '../../testing/servers.ts';
import { SILENT } from '../../testing/silent.ts';
import { replace } from '../../testing/simulation/replace.ts';
import { testDatabaseSettings } from '../../testing/test-database.ts';
import { WholeServers } from '../../testing/whole-servers.ts';
import { randomIds } from '../platform/base/id-source.ts';
import { ServerLease } from '../platform/cluster/server-lease.ts';
import type { Database } from '../platform/db/database.ts';
import { openDatabase } from '../platform/db/open-database.ts';
import { HeldClaims } from '../platform/idempotency/held-claims.ts';
import { Idempotency } from '../platform/idempotency/idempotency.ts';
import { IdempotencyRepository } from '../platform/idempotency/idempotency-repository.ts';

const SKEW_MS = 600_000;
const SKEWS = [-SKEW_MS, 0, SKEW_MS];
const TTL_MS = 60_000;
/** What the lifetime of a sandbox may be wrong by. */
const TOLERANCE_MS = 1_000;
/** What two servers may differ by in the time of the database: each of them knows it to 100 ms. */
const INEXACT_MS = 200;
/** Resources that each server creates for each list. */
const MADE_BY_EACH = 3;
const SANDBOXES = '/v1/sandboxes';
/** Lists that are sorted by time of creation, with what a client sends to create a resource, and its name in the answer. */
const LISTS = [
  { path: SANDBOXES, resource: 'sandbox', body: {} },
  { path: '/v1/api-keys', resource: 'apiKey', body: { name: 'key', scopes: ['event:read'] } },
  { path: '/v1/projects', resource: 'project', body: { name: 'project' } },
  { path: '/v1/secrets', resource: 'secret', body: { name: 'secret', value: 'some-value', hosts: ['api.test'] } },
  { path: '/v1/webhooks', resource: 'webhook', body: { url: 'https://localhost/', events: ['quota.exceeded'] } },
  { path: '/v1/workspace-runs', resource: 'workspaceRun', body: { command: ['sh', 'print x'] } },
] as const;

async function newDatabase(): Promise<string> {
  const { CLOCHE_DATABASE_URL: url } = await testDatabaseSettings();
  return url ?? assert.fail();
}

/**
 * Returns the URL of connections to which the database gives the time of a host whose clock is wrong.
 *
 * @param names functions that give this time: `clock_timestamp` is the clock of a server, and the leases of servers go by
 *   `statement_timestamp`
 */
async function urlWithClock(
  url: string,
  skewMs: number,
  names = ['clock_timestamp', 'statement_timestamp'],
): Promise<string> {
  const schema = `clock_${SKEWS.indexOf(skewMs)}`;
  await using db = await openDatabase(url);
  await sql`create schema ${sql.id(schema)}`.execute(db);
  for (const name of names) {
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

interface Made {
  readonly id: string;
  readonly server: number;
}

/** Lets the servers create resources of each list in turns. Returns them by the path of their list, newest first. */
async function createInTurns(servers: WholeServers, turns: readonly number[]): Promise<Map<string, Made[]>> {
  await using db = await openDatabase(servers.databaseUrl);
  const made = new Map<string, Made[]>(LISTS.map(({ path }) => [path, []]));
  for (let round = 0; round < MADE_BY_EACH * turns.length; round += 1) {
    const turn = round % turns.length;
    const server = turns[turn] ?? assert.fail();
    using _ = hostClock(turn);
    for (const { path, resource, body } of LISTS) {
      const name = 'name' in body ? { name: `${body.name}-${round}` } : {};
      const answer = await servers.call(server, 'POST', path, { ...body, ...name }, randomUUID());
      made.get(path)?.unshift({ id: answer.body[resource]?.id ?? assert.fail(answer.text), server });
    }
    const end = await timeOf(db);
    await eventually(async () => (await timeOf(db)) > end + INEXACT_MS, {
      because: 'the clock of the database advances',
    });
  }
  return made;
}

/** Returns the ids of a list, through each of the servers, of those that `made` has. */
async function listsThrough(servers: WholeServers, turns: readonly number[], path: string, made: readonly Made[]) {
  const lists: string[][] = [];
  for (const [turn, server] of turns.entries()) {
    using _ = hostClock(turn);
    const { body } = await servers.call(server, 'GET', path);
    const ids: string[] = body.data.map(({ id }: { id: string }) => id);
    // An organization also has a first project and a first key.
    lists.push(ids.filter((id) => made.some((one) => one.id === id)));
  }
  return lists;
}

/** An event, or an audit event. */
interface LoggedEvent {
  readonly seq: number;
  readonly at: string;
  readonly type?: string;
  readonly action?: string;
  readonly data?: { readonly sandbox?: { readonly id: string } };
  readonly target?: { readonly id: string };
}

/** Reads the events of the organization in small pages, each through the next server. None is skipped or repeated. */
async function readPages(servers: WholeServers, turns: readonly number[], path: string): Promise<LoggedEvent[]> {
  const events: LoggedEvent[] = [];
  for (let page = 0, afterSeq = 0, hasMore = true; hasMore; page += 1) {
    const turn = page % turns.length;
    using _ = hostClock(turn);
    const { body } = await servers.call(turns[turn] ?? assert.fail(), 'GET', `${path}?afterSeq=${afterSeq}&limit=2`);
    events.push(...body.data);
    ({ nextSeq: afterSeq, hasMore } = body);
  }
  for (const [index, { seq }] of events.entries()) assert.equal(seq, index + 1, path);
  return events;
}

/** Returns the ids of the sandboxes whose creation these events report, in the order of the events. */
function createdIn(events: readonly LoggedEvent[]): string[] {
  return events.flatMap(({ type, action, data, target }) => {
    if (type === 'sandbox.created') return [data?.sandbox?.id ?? assert.fail()];
    return action === 'sandbox.created' ? [target?.id ?? assert.fail()] : [];
  });
}

function byTime(events: readonly LoggedEvent[]): LoggedEvent[] {
  return events.toSorted((one, other) => Date.parse(one.at) - Date.parse(other.at));
}

/** Sets the clock of this process to that of the host of a server, until it is disposed of. */
function hostClock(turn: number): Disposable {
  const { now } = Date;
  const restored = new DisposableStack();
  restored.defer(replace(Date, { now: () => now() + (SKEWS[turn] ?? 0) }));
  return restored;
}

async function timeOf(db: Database): Promise<number> {
  const { rows } = await sql<{ at: number }>`
    select (extract(epoch from clock_timestamp()) * 1000)::float8 as at`.execute(db);
  return rows[0]?.at ?? assert.fail();
}

const idsOf = (made: readonly Made[] = []) => made.map(({ id }) => id);

/** Returns what the lifetime of a sandbox of this server is wrong by, by the clock of the database. */
async function errorOfLifetime(servers: WholeServers, server: number): Promise<number> {
  await using db = await openDatabase(servers.databaseUrl);
  const before = await timeOf(db);
  const { body } = await servers.call(server, 'POST', '/v1/sandboxes', { ttlMs: TTL_MS });
  const after = await timeOf(db);
  const end = Date.parse(body.sandbox.expiresAt) - TTL_MS;
  if (end < before) return end - before;
  return Math.max(0, end - after);
}

describe('servers of hosts with wrong clocks', { skip: NEEDS_POSTGRES }, () => {
  it('servers of hosts with wrong clocks give sandboxes the right lifetime', async () => {
    await using servers = await WholeServers.open(SKEWS.length);
    for (const server of SKEWS.keys()) {
      using _ = hostClock(server);
      const error = await errorOfLifetime(servers, server);
      assert.ok(Math.abs(error) <= TOLERANCE_MS, `${error} ms`);
    }
  });

  it('servers of hosts with wrong clocks give them a wrong one if they go by their own clocks: the control', async () => {
    await using servers = await WholeServers.open(1);
    for (const skew of [-SKEW_MS, SKEW_MS]) {
      const server = await servers.start(await urlWithClock(servers.databaseUrl, skew));
      const error = await errorOfLifetime(servers, server);
      assert.ok(Math.abs(error - skew) <= TOLERANCE_MS, `${error} ms`);
    }
  });

  it('servers of hosts with wrong clocks keep their claims, and lose them if they go by their own clocks: the control', async () => {
    const url = await newDatabase();
    assert.deepEqual(await losersOf(SKEWS.map(() => url)), []);
    const other = await newDatabase();
    const urls: string[] = [];
    for (const skew of SKEWS) urls.push(await urlWithClock(other, skew));
    // The leases of servers whose clocks are slow have ended for those whose clocks are faster.
    assert.deepEqual(await losersOf(urls), [0, 1]);
  });

  it('servers of hosts with wrong clocks list resources in the order in which clients created them, through any server, and in pages without a gap', async () => {
    await using servers = await WholeServers.open(SKEWS.length);
    const turns = [...SKEWS.keys()];
    const made = await createInTurns(servers, turns);
    for (const [path, ofList] of made) {
      const expected = idsOf(ofList);
      assert.equal(expected.length, MADE_BY_EACH * turns.length);
      const lists = await listsThrough(servers, turns, path, ofList);
      assert.deepEqual(lists, [expected, expected, expected], path);
    }
    const created = idsOf(made.get(SANDBOXES)).toReversed();
    const events = await readPages(servers, turns, '/v1/events');
    assert.deepEqual(createdIn(events), created);
    assert.deepEqual(createdIn(byTime(events)), created);
    const audited = await readPages(servers, turns, '/v1/audit-events');
    assert.deepEqual(createdIn(audited), created);
  });

  it('servers of hosts with wrong clocks list them in that order although these go by their own clocks, as the times of events show: the control', async () => {
    await using servers = await WholeServers.open(1);
    const turns: number[] = [];
    for (const skew of SKEWS) {
      turns.push(await servers.start(await urlWithClock(servers.databaseUrl, skew, ['clock_timestamp'])));
    }
    const made = await createInTurns(servers, turns);
    for (const [path, ofList] of made) {
      // Each insert makes its row the newest of its list.
      for (const list of await listsThrough(servers, turns, path, ofList)) assert.deepEqual(list, idsOf(ofList), path);
    }
    const created = idsOf(made.get(SANDBOXES)).toReversed();
    const events = await readPages(servers, turns, '/v1/events');
    assert.deepEqual(createdIn(events), created);
    assert.notDeepEqual(createdIn(byTime(events)), created);
  });
});
