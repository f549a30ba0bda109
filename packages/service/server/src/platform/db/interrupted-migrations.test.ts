import assert from 'node:assert/strict';
import { it } from 'node:test';
import { type Kysely, type KyselyPlugin, sql } from 'kysely';
import type { Migration } from 'kysely/migration';
import { recordStatements } from '../../../testing/executed-statements.ts';
import { DATABASE_KIND, openEmptyDatabase } from '../../../testing/test-database.ts';
import type { Database } from './database.ts';
import { kindOf } from './database-kind.ts';
import { MIGRATIONS, migrate } from './migrate.ts';
import { upgradeSchema } from './upgrade-schema.ts';

const NAMES = Object.keys(MIGRATIONS).sort();
/** Distance between the statements that end a migration. A round on PostgreSQL takes twenty times as long. */
const STEP = DATABASE_KIND === 'sqlite' ? 1 : 10;

/** Lets a migration fail after some of its statements, and counts those that it executes. */
class Interruption implements KyselyPlugin {
  executed = 0;
  readonly #after: number;

  constructor(after = Number.POSITIVE_INFINITY) {
    this.#after = after;
  }

  transformQuery: KyselyPlugin['transformQuery'] = ({ node }) => node;

  transformResult: KyselyPlugin['transformResult'] = async ({ result }) => {
    this.executed += 1;
    if (this.executed === this.#after) throw new Error(`interrupted after ${this.executed} statements`);
    return result;
  };

  of({ up }: Migration): Migration {
    return { up: (db: Kysely<unknown>) => up(db.withPlugin(this)) };
  }
}

/** Returns the tables with their columns, the indexes, and the migrations that were applied. */
async function schemaOf(db: Database): Promise<unknown[]> {
  const made = kindOf(db) === 'sqlite' ? sql`select name, sql from sqlite_master order by name` : OF_POSTGRESQL;
  const applied = sql`select name from kysely_migration order by name`;
  return [(await made.execute(db)).rows, (await applied.execute(db)).rows];
}

const OF_POSTGRESQL = sql`
  select attrelid::regclass::text || '.' || attname as name, atttypid::text || attnotnull::text as made
  from pg_attribute join pg_class on pg_class.oid = attrelid
  where relnamespace = current_schema()::regnamespace and attnum > 0 and not attisdropped
  order by name`;

/** Migrates up to `last`, interrupted by `interruption` in it. */
function migrateUpTo(db: Database, last: string, interruption: Interruption): Promise<unknown> {
  const known = NAMES.filter((name) => name < last).map((name) => [name, MIGRATIONS[name] as Migration] as const);
  const migrations = [...known, [last, interruption.of(MIGRATIONS[last] as Migration)] as const];
  return upgradeSchema(db, Object.fromEntries(migrations));
}

it('a migration that ends after any of its statements changes nothing, and the next start goes on', async () => {
  await using db = await openEmptyDatabase();
  await upgradeSchema(db, {});
  for (const name of NAMES) {
    const before = await schemaOf(db);
    for (let count = 1; ; count += STEP) {
      const interruption = new Interruption(count);
      const interrupted = await migrateUpTo(db, name, interruption).then(
        () => undefined,
        (error: Error) => error,
      );
      if (interruption.executed < count) break;
      assert.match(String(interrupted?.cause), new RegExp(`interrupted after ${count} `), name);
      assert.deepEqual(await schemaOf(db), before, `${name} after ${count} statements`);
    }
  }
  assert.deepEqual((await migrate(db)).applied, []);
  await using whole = await openEmptyDatabase();
  await migrate(whole);
  assert.deepEqual(await schemaOf(db), await schemaOf(whole));
});

it('all migrations of a first start are one change: none of them stays if the last one fails', async () => {
  await using db = await openEmptyDatabase();
  await upgradeSchema(db, {});
  const before = await schemaOf(db);
  const last = { up: () => Promise.reject(new Error('the last one fails')) };
  await assert.rejects(upgradeSchema(db, { ...MIGRATIONS, '999-last-expand': last }), /could not be migrated/);
  assert.deepEqual(await schemaOf(db), before);
  assert.deepEqual((await migrate(db)).applied, NAMES);
});

it('no migration has a statement without effect in a transaction', async () => {
  await using db = await openEmptyDatabase();
  using statements = recordStatements();
  await migrate(db);
  const made = statements.take();
  assert.equal(made.length > 0, kindOf(db) === 'sqlite');
  // Such as `pragma foreign_keys`, which SQLite ignores there.
  assert.deepEqual(
    made.filter((text) => /^\s*(pragma|vacuum|attach|detach)\b/i.test(text)),
    [],
  );
});
