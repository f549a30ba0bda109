import assert from 'node:assert/strict';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, it } from 'node:test';
import { pino } from 'pino';
import { compiledForPostgres } from '../../testing/compiled-for-postgres.ts';
import { openTestDatabase } from '../../testing/test-database.ts';
import { type ClaimRequest, IdempotencyRepository } from '../platform/idempotency/idempotency-repository.ts';
import { openRecordStore } from './open-record-store.ts';

const log = pino({ level: 'silent' });
const CLAIM: ClaimRequest = {
  id: 'idem_1',
  orgId: 'org_1',
  apiKeyId: 'key_1',
  method: 'POST',
  route: '/v1/x',
  key: 'k',
  bodyHash: 'hash',
  owner: 'srv_1:idem_1',
  now: 1000,
  expiresAt: 2000,
};

let folder: string;
let journalFile: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'cloche-record-store-'));
  journalFile = join(folder, 'journal');
});
afterEach(() => rmSync(folder, { recursive: true }));

describe('the store of idempotency records', () => {
  it('the store of idempotency records of SQLite has a journal', async () => {
    const db = await openTestDatabase('sqlite');
    const store = await openRecordStore({ db, repository: new IdempotencyRepository(db), journalFile, log });
    await store.records.claim(CLAIM);
    assert.match(readFileSync(journalFile, 'utf8'), /idem_1/);
    await store.close();
    await db.destroy();
  });

  it('the store of idempotency records of PostgreSQL has none: the database decides each claim', async () => {
    const { db, queries } = compiledForPostgres();
    const store = await openRecordStore({ db, repository: new IdempotencyRepository(db), journalFile, log });
    await store.records.claim(CLAIM);
    await store.close();
    assert.match(
      queries.map(({ sql }) => sql).join('\n'),
      /^insert into "idempotency_records".* returning "id", "claim"$/,
    );
    assert.equal(existsSync(journalFile), false);
  });
});
