import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { migrate } from '../db/migrate.ts';
import { openDatabase } from '../db/open-database.ts';
import { claimOwner, IdempotencyRepository, type IdempotencyScope, nameOf } from './idempotency-repository.ts';
import { KnownScopes } from './known-scopes.ts';

const scopeOf = (key: string): IdempotencyScope => ({
  orgId: 'org_1',
  apiKeyId: 'key_1',
  method: 'POST',
  route: '/v1/x',
  key,
});
const nameWith = (key: string) => nameOf(scopeOf(key));

async function databaseWith(keys: readonly string[]) {
  const db = openDatabase('sqlite::memory:');
  await migrate(db);
  const records = new IdempotencyRepository(db);
  for (const key of keys) {
    const claim = { id: `idem_${key}`, bodyHash: 'hash', owner: claimOwner('srv_1', key), now: 1, expiresAt: 2 };
    await records.claim({ ...scopeOf(key), ...claim });
  }
  return db;
}

describe('the scopes that may have a record', () => {
  it('are all as long as what the database has is not known', () => {
    assert.ok(new KnownScopes().mayHave(nameWith('other')));
  });

  it('are those that the database had, and those that were added, and hardly any other', async () => {
    const stored = Array.from({ length: 500 }, (_, index) => `stored ${index}`);
    await using db = await databaseWith(stored);
    const known = new KnownScopes();
    const learned = known.learn(db, () => false);
    const added = Array.from({ length: 100_000 }, (_, index) => `added ${index}`);
    for (const key of added) known.add(nameWith(key));
    await learned;
    for (const key of [...stored, ...added]) assert.ok(known.mayHave(nameWith(key)), key);
    const others = Array.from({ length: 10_000 }, (_, index) => `other ${index}`);
    assert.ok(others.filter((key) => known.mayHave(nameWith(key))).length < 20);
  });

  it('are as few as they are, however often one of them is asked for', async () => {
    await using db = await databaseWith([]);
    const known = new KnownScopes();
    await known.learn(db, () => false);
    const again = nameWith('again');
    for (let count = 0; count < 2_100_000; count++) known.add(again);
    assert.ok(known.mayHave(again));
    assert.ok(!known.mayHave(nameWith('other')));
  });

  it('are all for ever when it was left before it had learned them', async () => {
    await using db = await databaseWith(['stored']);
    const known = new KnownScopes();
    await known.learn(db, () => true);
    assert.ok(known.mayHave(nameWith('other')));
  });

  it('are learned when a transaction is over', async () => {
    await using db = await databaseWith(['stored']);
    const known = new KnownScopes();
    const begun = Promise.withResolvers<void>();
    const end = Promise.withResolvers<void>();
    const transaction = db.transaction().execute(async () => {
      begun.resolve();
      await end.promise;
    });
    await begun.promise;
    const learned = known.learn(db, () => false);
    assert.ok(known.mayHave(nameWith('other')));
    end.resolve();
    await Promise.all([transaction, learned]);
    assert.ok(known.mayHave(nameWith('stored')));
    assert.ok(!known.mayHave(nameWith('other')));
  });
});
