import assert from 'node:assert/strict';
import { after, before, beforeEach, it } from 'node:test';
import type { ApiKeyId } from '@cloche/contract';
import { FakeClock } from '@cloche/testkit';
import { openTestDatabase } from '../../../testing/test-database.ts';
import { Changes } from '../../platform/base/changes.ts';
import type { Database } from '../../platform/db/database.ts';
import { Transactions } from '../../platform/db/transactions.ts';
import { SESSION_IDLE_MS, SESSIONS_PER_KEY, SqlMcpSessions } from './sql-mcp-sessions.ts';

const KEY = 'key_1' as ApiKeyId;
const OTHER = 'key_2' as ApiKeyId;
let db: Database;
let clock: FakeClock;
let sessions: SqlMcpSessions;
/** Those of another server of the database. */
let elsewhere: SqlMcpSessions;
before(async () => {
  db = await openTestDatabase();
});
after(() => db.destroy());
beforeEach(async () => {
  await db.deleteFrom('mcp_sessions').execute();
  clock = new FakeClock();
  const deps = { db, transactions: new Transactions(db), clock, changes: new Changes<string>() };
  [sessions, elsewhere] = [new SqlMcpSessions(deps), new SqlMcpSessions(deps)];
});

async function found(id: string, of = sessions) {
  return (await of.find(KEY, id)) ?? assert.fail('the session exists');
}

it('a session is found by every server, with what another one has put into it', async () => {
  const id = await sessions.open(KEY);
  await (await found(id)).setLogLevel('warning');
  assert.equal(await (await found(id)).replaceSandbox('sbx_1'), 'sbx_1');
  const { logLevel, sandboxId } = await found(id, elsewhere);
  assert.deepEqual([logLevel, sandboxId], ['warning', 'sbx_1']);
  assert.deepEqual(await elsewhere.end(KEY, id), { sandboxId: 'sbx_1' });
  assert.equal(await sessions.find(KEY, id), undefined);
  assert.equal(await sessions.end(KEY, id), undefined);
});

it('a session keeps the first of two sandboxes that calls at the same time give it', async () => {
  const id = await sessions.open(KEY);
  const [one, two] = [await found(id), await found(id, elsewhere)];
  assert.equal(await one.replaceSandbox('sbx_1'), 'sbx_1');
  assert.equal(await two.replaceSandbox('sbx_2'), 'sbx_1');
  const later = await found(id);
  assert.equal(await later.replaceSandbox('sbx_3'), 'sbx_3');
  assert.equal(await two.replaceSandbox('sbx_3'), 'sbx_3');
  await sessions.end(KEY, id);
  assert.equal(await later.replaceSandbox('sbx_4'), undefined);
});

it('the database has no id of a session', async () => {
  const id = await sessions.open(KEY);
  const rows = await db.selectFrom('mcp_sessions').selectAll().execute();
  assert.ok(!JSON.stringify(rows).includes(id));
});

it('a key has a limited number of sessions, and loses those that it has not used for the longest time', async () => {
  const oldest = await sessions.open(KEY);
  const others = await elsewhere.open(OTHER);
  clock.advance(120_000);
  const used = await sessions.open(KEY);
  clock.advance(120_000);
  for (let count = 2; count < SESSIONS_PER_KEY; count++) await sessions.open(KEY);
  clock.advance(120_000);
  await found(used);
  await found(oldest);
  clock.advance(120_000);
  const latest = [await sessions.open(KEY), await elsewhere.open(KEY)];
  for (const id of [oldest, used, ...latest]) await found(id);
  const rows = await db.selectFrom('mcp_sessions').select('id_hash').where('api_key_id', '=', KEY).execute();
  assert.equal(rows.length, SESSIONS_PER_KEY);
  assert.ok(await sessions.find(OTHER, others));
});

it('a session ends when it is not used, and its row is deleted', async () => {
  const [used, left] = [await sessions.open(KEY), await sessions.open(KEY)];
  clock.advance(SESSION_IDLE_MS / 2);
  await found(used);
  clock.advance(SESSION_IDLE_MS / 2);
  assert.equal(await sessions.find(KEY, left), undefined);
  await found(used);
  assert.equal(await sessions.forget(), 1);
  await found(used);
});

it('the sessions of a key end together, with the names of their sandboxes', async () => {
  const ids = [await sessions.open(KEY), await sessions.open(KEY), await sessions.open(KEY)];
  await (await found(ids[0] ?? '')).replaceSandbox('sbx_1');
  await (await found(ids[2] ?? '')).replaceSandbox('sbx_3');
  const other = await sessions.open(OTHER);
  assert.deepEqual((await elsewhere.endOfKey(KEY)).sort(), ['sbx_1', 'sbx_3']);
  for (const id of ids) assert.equal(await sessions.find(KEY, id), undefined);
  assert.ok(await sessions.find(OTHER, other));
});

it('what a session subscribes to at one server is followed at another one, until the session ends', async () => {
  const id = await sessions.open(KEY);
  const following = (await found(id, elsewhere)).follow(new AbortController().signal)[Symbol.asyncIterator]();
  assert.deepEqual(await following.next(), { done: false, value: [] });
  const session = await found(id);
  for (const [uri, uris] of [
    ['a', ['a']],
    ['b', ['a', 'b']],
  ] as const) {
    const next = following.next();
    assert.equal(await session.subscribe(uri, 2), true);
    assert.deepEqual(await next, { done: false, value: uris });
  }
  assert.equal(await session.subscribe('a', 2), true);
  assert.equal(await session.subscribe('c', 2), false);
  const next = following.next();
  await session.unsubscribe('a');
  assert.deepEqual(await next, { done: false, value: ['b'] });
  const last = following.next();
  await sessions.end(KEY, id);
  assert.deepEqual(await last, { done: true, value: undefined });
});

it('subscriptions that are made at the same time are all kept', async () => {
  const id = await sessions.open(KEY);
  const [here, there] = [await found(id), await found(id, elsewhere)];
  await Promise.all(['a', 'b', 'c', 'd'].map((uri, index) => (index % 2 ? here : there).subscribe(uri, 4)));
  const { value } = await here.follow(new AbortController().signal)[Symbol.asyncIterator]().next();
  assert.deepEqual([...(value ?? [])].sort(), ['a', 'b', 'c', 'd']);
});
