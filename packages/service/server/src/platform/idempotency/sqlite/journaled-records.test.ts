import assert from 'node:assert/strict';
import { appendFileSync, mkdtempSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, it } from 'node:test';
import { pino } from 'pino';
import type { Database } from '../../db/database.ts';
import { migrate } from '../../db/migrate.ts';
import { openDatabase } from '../../db/open-database.ts';
import { type ClaimRequest, claimOwner, IdempotencyRepository } from '../idempotency-repository.ts';
import { JournaledRecords } from './journaled-records.ts';

const log = pino({ level: 'silent' });
const OWNER = claimOwner('srv_1', 'idem_1');
const FIRST: ClaimRequest = {
  id: 'idem_1',
  orgId: 'org_1',
  apiKeyId: 'key_1',
  method: 'POST',
  route: '/v1/x',
  key: 'k',
  bodyHash: 'hash',
  owner: OWNER,
  now: 1000,
  expiresAt: 2000,
};
const SECOND: ClaimRequest = { ...FIRST, id: 'idem_2', owner: claimOwner('srv_1', 'idem_2') };

let folder: string;
let file: string;
let db: Database;
let stored: IdempotencyRepository;
let records: JournaledRecords;
const open = () => JournaledRecords.open(db, stored, file, log);
const states = async () =>
  (await db.selectFrom('idempotency_records').select('state').execute()).map((row) => row.state);

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'cloche-journal-'));
  file = join(folder, 'journal');
  db = await openDatabase(`sqlite:${join(folder, 'x.db')}`);
  await migrate(db);
  stored = new IdempotencyRepository(db);
  records = await open();
});
afterEach(async () => {
  await records.close();
  await db.destroy();
  rmSync(folder, { recursive: true });
});

describe('a record in the journal', () => {
  it('a record in the journal is in the file before its claim is granted, and again before its end counts', async ({
    mock,
  }) => {
    mock.timers.enable({ apis: ['setTimeout'] });
    await records.claim(FIRST);
    const claimed = statSync(file).size;
    assert.ok(claimed > 0);
    await records.complete('idem_1', OWNER, { status: 200, body: '{"x":1}' });
    assert.ok(statSync(file).size > claimed);
    assert.deepEqual(await states(), []);
  });

  it('a record in the journal is given to the database, and leaves the file, a moment later', async ({ mock }) => {
    mock.timers.enable({ apis: ['setTimeout'] });
    await records.claim(FIRST);
    await records.complete('idem_1', OWNER, { status: 200, body: '{}' });
    assert.deepEqual(await states(), []);
    mock.timers.tick(1000);
    assert.deepEqual(await states(), ['completed']);
    assert.equal(statSync(file).size, 0);
  });

  it('a record in the journal outlives the process in every state', async () => {
    await records.claim(FIRST);
    await records.complete('idem_1', OWNER, { status: 201, body: '{"x":1}' });
    await records.claim({ ...SECOND, key: 'running' });
    await records.claim({ ...SECOND, id: 'idem_3', key: 'failed' });
    await records.fail('idem_3', SECOND.owner);
    await records.claim({ ...SECOND, id: 'idem_4', key: 'rejected' });
    await records.delete('idem_4', SECOND.owner);
    const next = await open();
    const find = (key: string) => stored.find({ ...FIRST, key });
    assert.deepEqual((await find('k'))?.response, { status: 201, body: '{"x":1}' });
    assert.equal((await find('running'))?.state, 'in_progress');
    assert.equal((await find('failed'))?.state, 'failed');
    assert.equal(await find('rejected'), undefined);
    await next.close();
  });

  it('a record in the journal is taken once, when the database had it before the process ended', async () => {
    await records.claim(FIRST);
    await records.complete('idem_1', OWNER, { status: 200, body: '{}' });
    const copy = await open();
    await copy.close();
    assert.deepEqual(await states(), ['completed']);
    await records.flush();
    assert.deepEqual(await states(), ['completed']);
  });

  it('a record in the journal that was cut off halfway was never granted: the others are kept', async () => {
    await records.claim(FIRST);
    appendFileSync(file, '{"claimed":{"id":"idem_2"');
    const next = await open();
    assert.deepEqual(await states(), ['in_progress']);
    assert.equal(statSync(file).size, 0);
    await next.close();
  });

  it('meets one that the database has: it is not claimed twice', async () => {
    assert.equal((await records.claim(FIRST))?.id, 'idem_1');
    await records.complete('idem_1', OWNER, { status: 200, body: '{}' });
    await records.flush();
    assert.equal(await records.claim(SECOND), undefined);
  });

  it('a record in the journal is not claimed twice by claims that wait for a transaction and claims that come after it', async () => {
    const begun = Promise.withResolvers<void>();
    const end = Promise.withResolvers<void>();
    const transaction = db.transaction().execute(async () => {
      begun.resolve();
      await end.promise;
    });
    await begun.promise;
    const claims = Array.from({ length: 5 }, (_, n) =>
      records.claim({ ...FIRST, id: `idem_${n}`, owner: `srv_1:${n}` }),
    );
    end.resolve();
    await transaction;
    claims.push(records.claim({ ...FIRST, id: 'idem_9', owner: 'srv_1:9' }));
    const granted = (await Promise.all(claims)).filter((id) => id !== undefined);
    assert.equal(granted.length, 1);
  });

  it('a record in the journal waits for the end of a transaction, and is not undone with it', async () => {
    await records.claim(FIRST);
    const undone = db.transaction().execute(async () => {
      void records.flush();
      throw new Error('undone');
    });
    await assert.rejects(undone, /undone/);
    await records.flush();
    assert.deepEqual(await states(), ['in_progress']);
  });

  it('a record in the journal goes to the database with many others before its time', async () => {
    for (let n = 0; n < 40; n++) {
      const owner = `srv_1:${n}`;
      await records.claim({ ...FIRST, id: `idem_${n}`, key: String(n), owner });
      await records.complete(`idem_${n}`, owner, { status: 200, body: '{}' });
    }
    await new Promise((resolve) => setImmediate(resolve));
    assert.ok((await states()).length >= 32);
  });
});
