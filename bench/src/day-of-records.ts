/**
 * Shows what a day at 100 runs a second leaves in PostgreSQL: `node bench/src/day-of-records.ts [records]`, as root,
 * some fifteen minutes and 10 GB in the temporary folder. Prints how long a claim and its completion take with an empty
 * table, with a full one, and while expired records are deleted, and what the table takes on the disk.
 */
import { migrate } from '../../packages/service/server/src/platform/db/migrate.ts';
import { openDatabase } from '../../packages/service/server/src/platform/db/open-database.ts';
import { IdempotencyRepository } from '../../packages/service/server/src/platform/idempotency/idempotency-repository.ts';
import { ReplayQuota } from '../../packages/service/server/src/platform/idempotency/replay-quota.ts';
import { storedBytesOf } from '../../packages/service/server/src/platform/idempotency/stored-response.ts';
import { BenchDatabase } from './bench-database.ts';
import { BODY, claimAndComplete, DAY_MS, SCOPE, SERVER_ID } from './record-pairs.ts';
import { figuresOf } from './statistics.ts';
import { repeat, timed } from './timing.ts';

const RUNS_PER_SECOND = 100;
const RECORDS = Number(process.argv[2] ?? (RUNS_PER_SECOND * DAY_MS) / 1000);
const INSERTED_AT_ONCE = 240_000;
/** How often a server deletes expired records, which is then a minute's worth of them. */
const EXPIRED = RUNS_PER_SECOND * 60;
const WARM_UP = 300;
const PAIRS = 2000;
/** Records expire in the day after this. */
const started = Date.now() + 10 * 60_000;

await using database = await BenchDatabase.start();
const db = await openDatabase(await database.create('day'));
try {
  await migrate(db);
  const records = new IdempotencyRepository(db);
  await showPairs('empty', records);
  const began = performance.now();
  for (let first = 0; first < RECORDS; first += INSERTED_AT_ONCE) await insert(first);
  show(`${RECORDS} records inserted`, performance.now() - began);
  await showSizes();
  await showPairs('full', records);
  show('vacuum analyze', await timed(() => psql('vacuum analyze idempotency_records')));
  await showPairs('full, vacuumed', records);
  show('what each beat of a server looks for', await timed(() => tidy(records)));
  show(
    'the sums that a starting server reads',
    await timed(() => new ReplayQuota(1).learn(db, Date.now(), () => false)),
  );
  const deleting = timed(() => records.deleteExpired(started + (EXPIRED * DAY_MS) / RECORDS));
  await showPairs('while expired records are deleted', records);
  show(`${EXPIRED} expired records deleted`, await deleting);
} finally {
  await db.destroy();
}

/** Claims and completes one record after the other. */
async function showPairs(name: string, records: IdempotencyRepository): Promise<void> {
  const pair = () => timed(() => claimAndComplete(records));
  await repeat(WARM_UP, pair);
  const { p50, p95, p99 } = figuresOf(await repeat(PAIRS, pair));
  console.log(`claim and completion, ${name}: p50 ${p50.toFixed(2)}, p95 ${p95.toFixed(2)}, p99 ${p99.toFixed(2)} ms`);
}

/** Inserts records that expire one after the other within a day. */
async function insert(first: number): Promise<void> {
  const { orgId, apiKeyId, method, route } = SCOPE;
  const last = Math.min(first + INSERTED_AT_ONCE, RECORDS) - 1;
  const bytes = storedBytesOf({ status: 200, body: BODY });
  await psql(`insert into idempotency_records (id, org_id, api_key_id, method, route, key, body_hash, state, owner,
      response_status, response_body, stored_bytes, created_at, expires_at)
    select 'idem_' || md5(n::text), '${orgId}', '${apiKeyId}', '${method}', '${route}', gen_random_uuid(), repeat('a', 64),
      'completed', '${SERVER_ID}:idem_' || md5(n::text), 200, '${BODY}', ${bytes}, ${started - DAY_MS} + at, ${started} + at
    from generate_series(${first}, ${last}) n, lateral (select n * ${DAY_MS}::bigint / ${RECORDS} as at) t`);
}

async function tidy(records: IdempotencyRepository): Promise<void> {
  await records.failUnheld(SERVER_ID, new Set());
  await records.failAbandoned(Date.now());
}

async function showSizes(): Promise<void> {
  for (const [name, size] of Object.entries({ table: 'pg_table_size', indexes: 'pg_indexes_size' })) {
    const bytes = Number(await psql(`select ${size}('idempotency_records')`));
    console.log(`${name}: ${(bytes / 2 ** 30).toFixed(2)} GiB`);
  }
}

function psql(statement: string): Promise<string> {
  return database.execute('day', statement);
}

function show(what: string, ms: number): void {
  console.log(`${what}: ${(ms / 1000).toFixed(2)} s`);
}
