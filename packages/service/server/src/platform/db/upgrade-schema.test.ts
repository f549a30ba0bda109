import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { sql } from 'kysely';
import { type Migration, Migrator } from 'kysely/migration';
import { DATABASE_KIND, openBeside, openEmptyDatabase } from '../../../testing/test-database.ts';
import type { Database } from './database.ts';
import { MIGRATIONS, migrate, SCHEMA_VERSION } from './migrate.ts';
import { upgradeSchema } from './upgrade-schema.ts';

const NAMES = Object.keys(MIGRATIONS).sort();
type Migrations = Record<string, Migration>;
const upTo = (last: string): Migrations =>
  Object.fromEntries(Object.entries(MIGRATIONS).filter(([name]) => name <= last));

/** Migrations of two later versions: the first adds a column, the second removes it. */
const NICKNAMES: Migrations = {
  '900-nicknames-expand': { up: (db) => db.schema.alterTable('orgs').addColumn('nickname', 'text').execute() },
};
const NO_USES: Migrations = {
  '901-no-uses-contract': { up: (db) => db.schema.alterTable('api_keys').dropColumn('last_used_at').execute() },
};
const LATER: Migrations = { ...MIGRATIONS, ...NICKNAMES };
const LATEST: Migrations = { ...LATER, ...NO_USES };

/** Writes the lease of a server. */
async function lease(db: Database, id: string, schema: string | null, forMs = 60_000): Promise<void> {
  const row = { id, lease_until: Date.now() + forMs, schema_version: schema };
  await db
    .insertInto('server_leases')
    .values(row)
    .onConflict((conflict) => conflict.column('id').doUpdateSet(row))
    .execute();
}

async function addOrg(db: Database, id: string): Promise<void> {
  await sql`insert into orgs (id, name, created_at) values (${id}, ${id}, 1)`.execute(db);
}

const orgsOf = (db: Database) => db.selectFrom('orgs').select('id').execute();

describe('a migration', () => {
  it('says by its name what it does to older servers, from 021 on', () => {
    const wrong = NAMES.filter((name) => name >= '021' && !/^\d{3}-[a-z-]+-(expand|contract)$/.test(name));
    assert.deepEqual(wrong, []);
  });
});

describe('a database of an older version', () => {
  for (const last of NAMES.slice(0, -1)) {
    it(`is migrated from ${last}, keeps its rows, and is migrated once`, async () => {
      await using db = await openEmptyDatabase();
      assert.deepEqual((await upgradeSchema(db, upTo(last))).applied, Object.keys(upTo(last)).sort());
      await addOrg(db, 'org_1');
      const { applied } = await migrate(db);
      assert.deepEqual(
        applied,
        NAMES.filter((name) => name > last),
      );
      assert.equal((await orgsOf(db)).length, 1);
      assert.deepEqual(await migrate(db), { applied: [], waiting: [], newer: [] });
    });
  }

  it('gets a migration that another branch numbered lower', async () => {
    await using db = await openEmptyDatabase();
    await upgradeSchema(db, { ...MIGRATIONS, '950-later-expand': { up: async () => undefined } });
    const { applied } = await upgradeSchema(db, { ...LATER, '950-later-expand': { up: async () => undefined } });
    assert.deepEqual(applied, ['900-nicknames-expand']);
  });
});

describe('an expanded database', () => {
  it('is used by a server that does not know the newest migrations, at its restart too', async () => {
    await using db = await openEmptyDatabase();
    await migrate(db);
    await lease(db, 'srv_old', SCHEMA_VERSION);
    assert.deepEqual((await upgradeSchema(db, LATER)).applied, ['900-nicknames-expand']);
    assert.deepEqual(await migrate(db), { applied: [], waiting: [], newer: ['900-nicknames-expand'] });
    await addOrg(db, 'org_old');
    assert.equal((await orgsOf(db)).length, 1);
  });

  it('is refused by a migrator that takes no other schema than its own: the control', async () => {
    await using db = await openEmptyDatabase();
    await upgradeSchema(db, LATER);
    const migrator = new Migrator({ db, provider: { getMigrations: async () => MIGRATIONS } });
    const { error } = await migrator.migrateToLatest();
    assert.match(String(error), /900-nicknames-expand is missing/);
  });

  it('is contracted at once if no server lives, and then refused by older servers', async () => {
    await using db = await openEmptyDatabase();
    await upgradeSchema(db, LATEST);
    await assert.rejects(upgradeSchema(db, LATER), /newer version .* \(901-no-uses-contract\)/);
    await assert.rejects(sql`select last_used_at from api_keys`.execute(db));
  });
});

const skip = DATABASE_KIND === 'sqlite' && 'a file of SQLite has one server: `npm test -- postgres`';
describe('a migration that removes something', { skip }, () => {
  const used = (db: Database) => sql`select last_used_at from api_keys`.execute(db);

  it('waits until every live server knows it', async () => {
    await using db = await openEmptyDatabase();
    await upgradeSchema(db, LATER);
    await lease(db, 'srv_new', '901-no-uses-contract');
    for (const schema of [null, SCHEMA_VERSION, '900-nicknames-expand']) {
      await lease(db, 'srv_old', schema);
      const report = await upgradeSchema(db, LATEST);
      assert.deepEqual(report, { applied: [], waiting: ['901-no-uses-contract'], newer: [] }, `${schema}`);
      await used(db);
    }
    await lease(db, 'srv_old', null, -1);
    assert.deepEqual((await upgradeSchema(db, LATEST)).applied, ['901-no-uses-contract']);
    await assert.rejects(used(db));
  });

  it('does not hold up later migrations that expand', async () => {
    await using db = await openEmptyDatabase();
    await migrate(db);
    await lease(db, 'srv_old', SCHEMA_VERSION);
    const further: Migrations = { '902-more-expand': { up: async () => undefined } };
    const report = await upgradeSchema(db, { ...LATEST, ...further });
    assert.deepEqual(report.applied, ['900-nicknames-expand', '902-more-expand']);
    assert.deepEqual(report.waiting, ['901-no-uses-contract']);
  });

  it('waits for every server of a time when leases named no schema', async () => {
    await using db = await openEmptyDatabase();
    await upgradeSchema(db, upTo('020-custom-templates'));
    await sql`insert into server_leases (id, lease_until) values ('srv_old', ${Date.now() + 60_000})`.execute(db);
    assert.deepEqual((await upgradeSchema(db, LATEST)).waiting, ['901-no-uses-contract']);
  });

  it('is seen by a server that waits for the lock of the migrations', async () => {
    await using db = await openEmptyDatabase();
    await upgradeSchema(db, LATER);
    await using beside = await openBeside(db);
    const outcomes = await Promise.allSettled([upgradeSchema(db, LATEST), upgradeSchema(beside, LATER)]);
    // Whichever came first: the older one has either started before, or is refused with the reason.
    assert.equal(outcomes[0].status, 'fulfilled');
    const older = outcomes[1];
    if (older.status === 'rejected') assert.match(String(older.reason), /newer version of Cloche has migrated/);
    await assert.rejects(upgradeSchema(beside, LATER), /newer version of Cloche has migrated/);
  });
});
