import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { sql } from 'kysely';
import { type Migration, Migrator } from 'kysely/migration';
import { fillTables } from '../../../testing/filled-tables.ts';
import { DATABASE_KIND, openBeside, openEmptyDatabase } from '../../../testing/test-database.ts';
import { listTables } from './copy/table-list.ts';
import type { Database } from './database.ts';
import { MIGRATIONS, migrate, SCHEMA_VERSION } from './migrate.ts';
import { upgradeSchema } from './upgrade-schema.ts';

const NAMES = Object.keys(MIGRATIONS).sort();
type Migrations = Record<string, Migration>;

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
  it('a migration says by its name what it does to older servers, after the first release', () => {
    const wrong = NAMES.slice(1).filter((name) => !/^\d{3}-[a-z-]+-(expand|contract)$/.test(name));
    assert.deepEqual([NAMES[0], wrong], ['040-first-release', []]);
  });
});

/** Migrations of the versions from before the first release. */
const UNRELEASED = [
  ...['001-initial', '002-commands', '003-previews', '004-artifacts', '005-live-sandboxes', '006-stored-results'],
  ...['007-events', '008-projects', '009-api-keys', '010-quotas', '013-webhooks', '014-audit', '015-usage'],
  ...['016-secrets', '017-ended-keys', '018-workspace-runs', '019-workspace-archives', '020-custom-templates'],
  ...['021-claims-expand', '022-owners-expand', '023-key-caches-expand', '025-server-schemas-expand'],
  ...['026-replay-parts-expand', '027-content-removals-expand', '028-failure-kinds-expand'],
  ...['029-archive-attempts-expand', '030-lists-expand', '031-deleted-records-expand'],
  ...['032-changes-and-revocations-expand', '033-build-turns-expand', '034-planned-times-expand'],
  ...['035-lost-events-expand', '036-sandbox-notes-expand', '037-mcp-sessions-expand', '038-image-layers-expand'],
  '039-mcp-subscriptions-expand',
];

/** The migrations of the first release. Tables of versions before it are these, whatever later migrations add. */
const FIRST_RELEASE = Object.fromEntries(Object.entries(MIGRATIONS).filter(([name]) => name === '040-first-release'));

/** Returns a database as versions before the first release left it, with rows, migrated up to `last`. */
async function openUnreleased(last: string): Promise<Database> {
  const db = await openEmptyDatabase();
  await upgradeSchema(db, FIRST_RELEASE);
  if (DATABASE_KIND === 'sqlite') await fillTables(db, await listTables(db), 3);
  else for (const id of ['org_1', 'org_2', 'org_3']) await addOrg(db, id);
  await sql`delete from kysely_migration`.execute(db);
  for (const name of UNRELEASED.filter((each) => each <= last))
    await sql`insert into kysely_migration (name, timestamp) values (${name}, '2026-11-30T00:00:00.000Z')`.execute(db);
  return db;
}

/** Returns all rows of all tables, with those of the migrations. */
async function rowsOf(db: Database): Promise<unknown[]> {
  const tables = [...(await listTables(db)).map(({ name }) => name), 'kysely_migration'];
  return Promise.all(tables.map(async (name) => (await sql`select * from ${sql.table(name)}`.execute(db)).rows));
}

const UNCHANGED = { applied: [], waiting: [], newer: [] };

describe('a database of a version before the first release', () => {
  it('a database of a version before the first release is used as it is if it has the last of their migrations, and gets those of later versions', async () => {
    await using db = await openUnreleased('039-mcp-subscriptions-expand');
    const before = await rowsOf(db);
    const reports = [await upgradeSchema(db, FIRST_RELEASE), await upgradeSchema(db, FIRST_RELEASE)];
    assert.deepEqual(reports, [UNCHANGED, UNCHANGED]);
    assert.deepEqual(await rowsOf(db), before);
    assert.equal((await orgsOf(db)).length, 3);
    const report = await upgradeSchema(db, LATEST);
    const released = Object.keys(MIGRATIONS).slice(1);
    assert.deepEqual(report, { ...UNCHANGED, applied: [...released, '900-nicknames-expand', '901-no-uses-contract'] });
  });

  // The last one of each kind of name, the one from which leases name schemas, and the one before the last.
  for (const last of ['001-initial', '020-custom-templates', '025-server-schemas-expand', '038-image-layers-expand']) {
    it(`a database of a version before the first release is refused with the remedy, and unchanged, if its last migration is ${last}`, async () => {
      await using db = await openUnreleased(last);
      // Servers of that time had leases without a schema.
      if (last < '025') await sql`alter table server_leases drop column schema_version`.execute(db);
      const before = await rowsOf(db);
      await assert.rejects(migrate(db), new RegExp(`^Error: .* up to ${last}; start the last version 0\\.1\\.0 once`));
      assert.deepEqual(await rowsOf(db), before);
    });
  }
});

describe('a database of an older version', () => {
  it('a database of an older version is migrated once and keeps its rows', async () => {
    await using db = await openEmptyDatabase();
    await migrate(db);
    await addOrg(db, 'org_1');
    assert.deepEqual((await upgradeSchema(db, LATER)).applied, ['900-nicknames-expand']);
    assert.deepEqual(await upgradeSchema(db, LATER), UNCHANGED);
    assert.equal((await orgsOf(db)).length, 1);
  });

  it('a database of an older version gets a migration that another branch numbered lower', async () => {
    await using db = await openEmptyDatabase();
    await upgradeSchema(db, { ...MIGRATIONS, '950-later-expand': { up: async () => undefined } });
    const { applied } = await upgradeSchema(db, { ...LATER, '950-later-expand': { up: async () => undefined } });
    assert.deepEqual(applied, ['900-nicknames-expand']);
  });
});

describe('an expanded database', () => {
  it('an expanded database is used by a server that does not know the newest migrations, at its restart too', async () => {
    await using db = await openEmptyDatabase();
    await migrate(db);
    await lease(db, 'srv_old', SCHEMA_VERSION);
    assert.deepEqual((await upgradeSchema(db, LATER)).applied, ['900-nicknames-expand']);
    assert.deepEqual(await migrate(db), { applied: [], waiting: [], newer: ['900-nicknames-expand'] });
    await addOrg(db, 'org_old');
    assert.equal((await orgsOf(db)).length, 1);
  });

  it('an expanded database is refused by a migrator that takes no other schema than its own: the control', async () => {
    await using db = await openEmptyDatabase();
    await upgradeSchema(db, LATER);
    const migrator = new Migrator({ db, provider: { getMigrations: async () => MIGRATIONS } });
    const { error } = await migrator.migrateToLatest();
    assert.match(String(error), /900-nicknames-expand is missing/);
  });

  it('an expanded database is contracted at once if no server lives, and then refused by older servers', async () => {
    await using db = await openEmptyDatabase();
    await upgradeSchema(db, LATEST);
    await assert.rejects(upgradeSchema(db, LATER), /newer version .* \(901-no-uses-contract\)/);
    await assert.rejects(sql`select last_used_at from api_keys`.execute(db));
  });
});

const skip = DATABASE_KIND === 'sqlite' && 'a file of SQLite has one server: `npm test -- postgres`';
describe('a migration that removes something', { skip }, () => {
  const used = (db: Database) => sql`select last_used_at from api_keys`.execute(db);

  it('a migration that removes something waits until every live server knows it', async () => {
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

  it('a migration that removes something does not hold up later migrations that expand', async () => {
    await using db = await openEmptyDatabase();
    await migrate(db);
    await lease(db, 'srv_old', SCHEMA_VERSION);
    const further: Migrations = { '902-more-expand': { up: async () => undefined } };
    const report = await upgradeSchema(db, { ...LATEST, ...further });
    assert.deepEqual(report.applied, ['900-nicknames-expand', '902-more-expand']);
    assert.deepEqual(report.waiting, ['901-no-uses-contract']);
  });

  it('a migration that removes something waits for a server from before the first release, which may start again meanwhile', async () => {
    await using db = await openUnreleased('039-mcp-subscriptions-expand');
    await lease(db, 'srv_old', '039-mcp-subscriptions-expand');
    const report = await upgradeSchema(db, LATEST);
    const expanding = [...NAMES.slice(1), '900-nicknames-expand'];
    assert.deepEqual([report.applied, report.waiting], [expanding, ['901-no-uses-contract']]);
    // The old server finds the records of all its migrations, and further migrations that only expand.
    const { rows } = await sql<{ name: string }>`select name from kysely_migration order by name`.execute(db);
    assert.deepEqual(
      rows.map(({ name }) => name),
      [...UNRELEASED, ...expanding],
    );
  });

  it('a migration that removes something is seen by a server that waits for the lock of the migrations', async () => {
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
