import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { after, afterEach, beforeEach, describe, it } from 'node:test';
import { type ErrorCode, LIMITS } from '@cloche/contract';
import { pino } from 'pino';
import { DATABASE_KIND, openTestDatabase } from '../../../testing/test-database.ts';
import { AppError } from '../base/app-error.ts';
import { canonicalJson } from '../base/canonical-json.ts';
import { randomIds } from '../base/id-source.ts';
import { ServerLease } from '../cluster/server-lease.ts';
import type { Database } from '../db/database.ts';
import { hashBody } from './hash-body.ts';
import { HeldClaims } from './held-claims.ts';
import { type Claim, Idempotency } from './idempotency.ts';
import { claimOwner, IdempotencyRepository, type IdempotencyScope } from './idempotency-repository.ts';
import { ReplayParts } from './replay-parts.ts';
import { ReplayQuota } from './replay-quota.ts';
import { ReplayRecount } from './replay-recount.ts';
import { ResultFiles } from './result-files.ts';
import { JournaledRecords } from './sqlite/journaled-records.ts';
import { RECORD_BYTES } from './stored-response.ts';

const scope: IdempotencyScope = { orgId: 'org_1', apiKeyId: 'key_1', method: 'POST', route: '/v1/x', key: 'k' };
const log = pino({ level: 'silent' });
const QUOTA_BYTES = 2 * 1024 * 1024;

let now: number;
let db: Database;
let records: IdempotencyRepository;
let idempotency: Idempotency;
let journaled: JournaledRecords | undefined;
let quota: ReplayQuota;
let files: ResultFiles;
let held: HeldClaims;
const clock = { now: () => now };
const folder = mkdtempSync(join(tmpdir(), 'cloche-records-'));
after(() => rmSync(folder, { recursive: true }));
afterEach(async () => {
  await journaled?.close();
  journaled = undefined;
  await db.destroy();
});

async function openDirectly(): Promise<void> {
  now = 1_000_000;
  db = await openTestDatabase();
  records = new IdempotencyRepository(db);
  quota = new ReplayQuota(QUOTA_BYTES);
  files = new ResultFiles(mkdtempSync(join(folder, 'results-')), clock, randomIds);
  held = new HeldClaims();
  idempotency = new Idempotency(records, 'srv_1', clock, randomIds, { files, quota }, held);
  for (const id of ['srv_1', 'srv_2', 'srv_12']) await leaseOf(id).beat();
}

async function openJournaled(): Promise<void> {
  await openDirectly();
  journaled = await JournaledRecords.open(db, records, join(mkdtempSync(join(folder, 'of-')), 'journal'), log);
  idempotency = new Idempotency(journaled, 'srv_1', clock, randomIds, { files, quota }, held);
}

const leaseOf = (serverId: string) => new ServerLease({ db, records, held, files, serverId, version: '1', clock, log });

/** Ends the lease of a server, as its time would. */
const endLease = (id: string) => db.deleteFrom('server_leases').where('id', '=', id).execute();

async function claim(body: unknown = {}, where = scope): Promise<Claim> {
  const opened = await idempotency.open(where, body);
  assert.equal(opened.status, 'claimed');
  return opened.status === 'claimed' ? opened.claim : assert.fail();
}

function refuses(promise: Promise<unknown>, code: ErrorCode): Promise<void> {
  return assert.rejects(promise, (error) => error instanceof AppError && error.code === code);
}

describe('an idempotency record of the database', () => describeRecords(openDirectly));
const skip = DATABASE_KIND === 'postgresql' && 'the journal is for SQLite alone';
describe('an idempotency record by way of the journal', { skip }, () => describeRecords(openJournaled));

function describeRecords(open: () => Promise<void>): void {
  beforeEach(open);

  it('an idempotency record by way of the journal is claimed by exactly one of many requests at once', async () => {
    const results = await Promise.allSettled(Array.from({ length: 30 }, () => idempotency.open(scope, { a: 1 })));
    assert.equal(results.filter(({ status }) => status === 'fulfilled').length, 1);
    for (const result of results) {
      if (result.status === 'rejected') assert.equal(result.reason.code, 'idempotency_request_in_progress');
    }
  });

  it('an idempotency record by way of the journal is replayed once completed, whatever the order of the keys in the body', async () => {
    await (await claim({ a: 1, b: { c: 1, d: 2 } })).complete(201, '{"x":1}');
    const opened = await idempotency.open(scope, { b: { d: 2, c: 1 }, a: 1 });
    assert.deepEqual(opened, { status: 'replay', response: { status: 201, body: '{"x":1}' } });
  });

  it('an idempotency record by way of the journal is replayed from a file when its response is large', async () => {
    const text = JSON.stringify('\u0001'.repeat(100_000));
    const file = await (await claim()).completeWithFile(200, [text.slice(0, 7), text.slice(7)]);
    assert.equal(file.bytes, text.length);
    assert.ok(file.diskBytes < 10_000);
    const opened = await idempotency.open(scope, {});
    assert.deepEqual(opened, { status: 'replay', response: { status: 200, file } });
    assert.equal((await buffer(idempotency.read(file))).toString(), text);
  });

  it('an idempotency record by way of the journal is read by servers without its file while the record exists, if the database has a copy', async () => {
    const filesOf = () => new ResultFiles(mkdtempSync(join(folder, 'results-')), clock, randomIds, new ReplayParts(db));
    const [here, elsewhere] = [filesOf(), filesOf()];
    // Hexadecimal digits of random bytes shrink to a half, which are several parts.
    const text = JSON.stringify(randomBytes(1_000_000).toString('hex'));
    const file = await here.write([text.slice(0, 700_000), text.slice(700_000)]);
    const readBy = async (of: ResultFiles) => (await buffer(of.read(file))).toString();
    assert.equal(await readBy(elsewhere), text);
    now += LIMITS.idempotencyRetentionMs - 1;
    await here.removeExpired(now);
    assert.equal(await readBy(elsewhere), text);
    // Without its later parts it is no shorter result, but an error.
    await db.deleteFrom('replay_parts').where('part', '>', 0).execute();
    await assert.rejects(readBy(elsewhere), /unexpected end of file/);
    now += 3_600_001;
    await elsewhere.removeExpired(now);
    assert.deepEqual(await db.selectFrom('replay_parts').select('part').execute(), []);
    await assert.rejects(readBy(elsewhere), { code: 'ENOENT' });
  });

  it('an idempotency record by way of the journal counts for the quota of its organization until it expires, and what is recorded is replayed beyond it', async () => {
    await (await claim({ a: 1 })).complete(200, 'x'.repeat(QUOTA_BYTES));
    await refuses(idempotency.open({ ...scope, key: 'other' }, {}), 'quota_exceeded');
    assert.equal((await idempotency.open(scope, { a: 1 })).status, 'replay');
    await refuses(idempotency.open(scope, { a: 2 }), 'idempotency_key_reused');
    await (await claim({}, { ...scope, orgId: 'org_2' })).reject();
    assert.equal(quota.usedBytes('org_2', now), 0);
    now += LIMITS.idempotencyRetentionMs + 3_600_000;
    await claim({ a: 3 });
  });

  it('an idempotency record by way of the journal counts by its bytes, not by its characters', async () => {
    const used = quota.usedBytes('org_1', now);
    await (await claim({ a: 1 })).complete(200, '€'.repeat(1000));
    const more = quota.usedBytes('org_1', now) - used;
    assert.equal(more, RECORD_BYTES + Buffer.byteLength('€'.repeat(1000)));
    await journaled?.flush();
    const row = await db.selectFrom('idempotency_records').select('stored_bytes').executeTakeFirstOrThrow();
    assert.equal(Number(row.stored_bytes), more);
  });

  it('an idempotency record by way of the journal counts for the quota of the next life of the server', async () => {
    await (await claim({ a: 1 })).complete(200, 'x'.repeat(5_000));
    await (await claim({ a: 1 }, { ...scope, key: 'second' })).fail();
    await journaled?.flush();
    const next = new ReplayQuota(QUOTA_BYTES);
    now += 60_000;
    await next.learn(db, now, () => false);
    assert.equal(next.usedBytes('org_1', now), quota.usedBytes('org_1', now));
  });

  it('an idempotency record by way of the journal counts for the quota of other servers when they count the records again, and until it expires', async () => {
    const other = new ReplayQuota(QUOTA_BYTES);
    const recount = new ReplayRecount({ db, quota: other, clock, log });
    const hour = 3_600_000;
    const claimed: { readonly claim: Claim; readonly at: number }[] = [];
    const isCounted = async () => {
      await journaled?.flush();
      await recount.recount();
      assert.equal(other.usedBytes('org_1', now), quota.usedBytes('org_1', now));
    };
    for (let count = 0; count < 30; count += 1) {
      claimed.push({ claim: await claim({}, { ...scope, key: `${count}` }), at: now });
      now += hour;
      await isCounted();
    }
    // The end of a claim counts when its hour has its turn, however long ago it was made.
    const old = claimed.find(({ at }) => at > now - 20 * hour) ?? assert.fail();
    await old.claim.complete(200, 'x'.repeat(5_000));
    await journaled?.flush();
    for (let pass = 0; pass < 24; pass += 1) await recount.recount();
    await isCounted();
    now += 25 * hour;
    await isCounted();
    assert.equal(other.usedBytes('org_1', now), 0);
  });

  it('an idempotency record by way of the journal refuses another body in progress, completed and failed', async () => {
    const first = await claim({ a: 1 });
    await refuses(idempotency.open(scope, { a: 2 }), 'idempotency_key_reused');
    await first.fail();
    await refuses(idempotency.open(scope, { a: 2 }), 'idempotency_key_reused');
    await (await claim({ a: 1 })).complete(200, '{}');
    await refuses(idempotency.open(scope, { a: 2 }), 'idempotency_key_reused');
  });

  it('an idempotency record by way of the journal keeps its id when the same request runs again after a failure', async () => {
    const first = await claim();
    await first.fail();
    const again = await claim();
    assert.deepEqual([again.recordId, again.record.claim], [first.recordId, first.record.claim + 1]);
  });

  it('an idempotency record by way of the journal is gone after a rejection, so that a better body may use the key', async () => {
    await (await claim({ a: 1 })).reject();
    await claim({ a: 2 });
  });

  it('an idempotency record by way of the journal is failed again, not gone, when a retry is rejected', async () => {
    const first = await claim({ a: 1 });
    await first.fail();
    await (await claim({ a: 1 })).reject();
    await refuses(idempotency.open(scope, { a: 2 }), 'idempotency_key_reused');
    assert.equal((await claim({ a: 1 })).recordId, first.recordId);
  });

  it('an idempotency record by way of the journal ends by the error: a rejection withdraws it, anything else fails it', async () => {
    await (await claim({ a: 1 })).endWith(new AppError('not_found', 'no'), log);
    const second = await claim({ a: 2 });
    await second.endWith(new AppError('unavailable', 'later'), log);
    const third = await claim({ a: 2 });
    assert.equal(third.recordId, second.recordId);
    await third.endWith(new Error('bug'), log);
    assert.equal((await claim({ a: 2 })).recordId, second.recordId);
  });

  it('an idempotency record by way of the journal belongs to one organization, key, method, path and value', async () => {
    await claim({ a: 1 });
    for (const other of [
      { orgId: 'org_2' },
      { apiKeyId: 'key_2' },
      { method: 'PUT' },
      { route: '/v1/y' },
      { key: 'K' },
    ] as Partial<IdempotencyScope>[]) {
      await claim({ a: 2 }, { ...scope, ...other });
    }
  });

  it('an idempotency record by way of the journal expires after 24 hours: the same key is then a new request with a new record', async () => {
    const first = await claim({ a: 1 });
    await first.complete(200, '{}');
    now += LIMITS.idempotencyRetentionMs - 1;
    await refuses(idempotency.open(scope, { a: 2 }), 'idempotency_key_reused');
    now += 1;
    assert.notEqual((await claim({ a: 2 })).recordId, first.recordId);
  });

  it('an idempotency record by way of the journal cannot be completed by a server that has lost it', async () => {
    const lost = await claim();
    await journaled?.flush();
    await records.failAllOf('srv_1');
    const other = new Idempotency(journaled ?? records, 'srv_2', clock, randomIds);
    assert.equal((await other.open(scope, {})).status, 'claimed');
    await assert.rejects(lost.complete(200, '{}'), /was lost/);
    await lost.fail();
    await refuses(other.open(scope, {}), 'idempotency_request_in_progress');
  });
}

describe('a claim that was lost', () => {
  beforeEach(openDirectly);

  it('a claim that was lost cannot end the record that a later claim of the same server holds', async () => {
    const lost = await claim();
    await records.failAllOf('srv_1');
    const later = await claim();
    await assert.rejects(lost.complete(200, '"lost"'), /was lost/);
    await lost.fail();
    await later.complete(200, '"later"');
    assert.deepEqual(await idempotency.open(scope, {}), {
      status: 'replay',
      response: { status: 200, body: '"later"' },
    });
  });
});

describe('a server lease', () => {
  beforeEach(openDirectly);

  it('a server lease fails at its start what its last life left in progress', async () => {
    const interrupted = await claim();
    const lease = leaseOf('srv_1');
    await lease.start();
    lease.stop();
    assert.equal((await claim()).recordId, interrupted.recordId);
  });

  it('a server lease fails what another server left, only once its lease has run out', async () => {
    await claim();
    const survivor = leaseOf('srv_2');
    await survivor.beat();
    await refuses(idempotency.open(scope, {}), 'idempotency_request_in_progress');
    await endLease('srv_1');
    await survivor.beat();
    await claim();
  });

  it('a server lease is not taken for that of a server whose id begins alike', async () => {
    const longer = new Idempotency(records, 'srv_12', clock, randomIds);
    await longer.open(scope, {});
    assert.equal(await records.failAllOf('srv_1'), 0);
    await endLease('srv_12');
    await leaseOf('srv_1').beat();
    await claim();
  });

  it('a server lease fails what its server has in progress without working on it, as a claim whose commit was not answered', async () => {
    const lost = claimOwner('srv_1', 'lost');
    const known = await claim({}, { ...scope, key: 'known' });
    const request = { ...scope, id: 'idem_lost', bodyHash: hashBody({}), owner: lost, now, expiresAt: now + 1000 };
    assert.ok(await records.claim(request));
    await refuses(idempotency.open(scope, {}), 'idempotency_request_in_progress');
    await leaseOf('srv_1').beat();
    assert.equal((await claim()).recordId, 'idem_lost');
    await known.complete(200, '{}');
  });

  it('a server lease sweeps expired records and their files', async () => {
    for (let count = 0; count < 1001; count += 1) await (await claim({}, { ...scope, key: `${count}` })).fail();
    const file = await (await claim()).completeWithFile(200, ['{}']);
    now += LIMITS.idempotencyRetentionMs - 1;
    await leaseOf('srv_1').beat();
    await buffer(await files.read(file));
    now += 3_600_001;
    await leaseOf('srv_1').beat();
    assert.deepEqual(await db.selectFrom('idempotency_records').select('id').execute(), []);
    await assert.rejects(buffer(files.read(file)), { code: 'ENOENT' });
  });
});

describe('the claims of a server that is cut off', () => {
  beforeEach(openDirectly);

  it('end with their work, and are not ended in the database', async () => {
    const lost = await claim();
    const work = new AbortController();
    lost.setWork(work);
    held.abandonAll();
    assert.ok(work.signal.reason instanceof AppError && work.signal.reason.code === 'unavailable');
    await lost.endWith(work.signal.reason, log);
    await refuses(idempotency.open(scope, {}), 'idempotency_request_in_progress');
    await leaseOf('srv_1').beat();
    assert.equal((await claim()).record.claim, 2);
  });

  it('the claims of a server that is cut off are not worked on if the database granted them too late', async () => {
    let isFenced = false;
    const late = new HeldClaims(() => isFenced);
    const slow = new Idempotency(records, 'srv_1', clock, randomIds, {}, late);
    const opening = slow.open(scope, {});
    isFenced = true;
    await refuses(opening, 'unavailable');
    assert.equal((await db.selectFrom('idempotency_records').selectAll().execute()).length, 1);
    const second = new Idempotency(records, 'srv_2', clock, randomIds);
    await refuses(second.open(scope, {}), 'idempotency_request_in_progress');
    await endLease('srv_1');
    if (DATABASE_KIND === 'postgresql') assert.equal((await second.open(scope, {})).status, 'claimed');
  });
});

describe('canonicalJson', () => {
  it('sorts keys at every depth, keeps the order of arrays, and tells values of different types apart', () => {
    assert.equal(canonicalJson({ b: [2, { z: 1, a: 2 }], a: null }), '{"a":null,"b":[2,{"a":2,"z":1}]}');
    assert.notEqual(canonicalJson({ a: 1 }), canonicalJson({ a: '1' }));
    assert.equal(canonicalJson({ b: 1, 10: 1, 9: 1 }), canonicalJson({ 9: 1, b: 1, 10: 1 }));
  });
});
