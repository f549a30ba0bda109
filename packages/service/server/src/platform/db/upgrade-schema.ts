/** Applies migrations while servers of other versions may use the database. */
import { sql } from 'kysely';
import { DEFAULT_MIGRATION_TABLE, type Migration, Migrator } from 'kysely/migration';
import type { Database } from './database.ts';
import { kindOf } from './database-kind.ts';
import { postgresPool } from './postgres-database.ts';

/**
 * Suffix of migrations that older servers can work with: they only add tables, indexes, and columns that are nullable
 * or have a default. So the servers of one database can be replaced one after another.
 */
const EXPANDS = '-expand';
/**
 * Suffix of migrations that remove what this version no longer uses. They wait until every live server knows them,
 * because an older one may still use it.
 */
const CONTRACTS = '-contract';
/** Migration that creates the tables of the first release. */
const FIRST_RELEASE = '040-first-release';
/** The last of the migrations from before the first release. A database that has it has the tables of that release. */
const LAST_UNRELEASED = '039-mcp-subscriptions-expand';

export interface SchemaReport {
  /** Migrations that this call has applied. */
  readonly applied: string[];
  /** Migrations that wait until older servers have ended. */
  readonly waiting: string[];
  /** Migrations of a newer version that this version can work with. */
  readonly newer: string[];
}

/**
 * Applies the migrations that the database lacks, one process at a time.
 *
 * @param migrations those of this version, by name
 * @throws Error when a migration fails, or when a version has changed the database that this one cannot follow
 */
export async function upgradeSchema(
  db: Database,
  migrations: Readonly<Record<string, Migration>>,
): Promise<SchemaReport> {
  // SQLite has one connection, which the migrator holds, and one server, so nothing changes meanwhile.
  const before = kindOf(db) === 'sqlite' ? await planOf(db, migrations) : undefined;
  let plan: Plan = { migrations: {}, waiting: [], newer: [] };
  const migrator = new Migrator({
    db,
    // A branch may add a migration whose name sorts before one that is already applied.
    allowUnorderedMigrations: true,
    // The migrator calls it while it holds its lock.
    provider: {
      async getMigrations() {
        plan = before ?? (await planOf(db, migrations));
        return plan.migrations;
      },
    },
  });
  const migrateAll = () => migrator.migrateToLatest();
  const { error, results = [] } = await (postgresPool(db)?.withoutLimits(migrateAll) ?? migrateAll());
  if (error instanceof UnusableSchemaError) throw error;
  if (error !== undefined) throw new Error('the database could not be migrated', { cause: error });
  const { waiting, newer } = plan;
  return { applied: results.map(({ migrationName }) => migrationName), waiting, newer };
}

/** This version cannot use the tables of the database. The message names the remedy. */
class UnusableSchemaError extends Error {}

interface Plan {
  readonly migrations: Record<string, Migration>;
  readonly waiting: string[];
  readonly newer: string[];
}

async function planOf(db: Database, known: Readonly<Record<string, Migration>>): Promise<Plan> {
  const executed = await readExecuted(db);
  const unreleased = executed.filter((name) => name < FIRST_RELEASE);
  const newer = executed.filter((name) => name > FIRST_RELEASE && !(name in known));
  assertUsable(unreleased, newer);
  const oldestSchema = executed.length > 0 ? await findOldestSchema(db) : undefined;
  const isTooOld = (name: string) => oldestSchema !== undefined && oldestSchema < name;
  const waiting = Object.keys(known).filter(
    (name) => name.endsWith(CONTRACTS) && !executed.includes(name) && isTooOld(name),
  );
  const isDone = (name: string) => name === FIRST_RELEASE && unreleased.length > 0;
  const allowed = Object.entries(known).filter(([name]) => !waiting.includes(name) && !isDone(name));
  // The migrator demands to know each migration that was executed.
  const others = [...unreleased, ...newer].map((name): [string, Migration] => [name, { up: async () => undefined }]);
  return { migrations: Object.fromEntries([...allowed, ...others]), waiting, newer };
}

function assertUsable(unreleased: readonly string[], newer: readonly string[]): void {
  const breaking = newer.filter((name) => !name.endsWith(EXPANDS));
  if (breaking.length > 0)
    throw new UnusableSchemaError(
      `a newer version of Cloche has migrated the database (${breaking.join(', ')}); start that version, or restore a backup of the database`,
    );
  if (unreleased.length > 0 && !unreleased.includes(LAST_UNRELEASED))
    throw new UnusableSchemaError(
      `an early version 0.1.0 of Cloche has migrated the database only up to ${unreleased.at(-1)}; start the last version 0.1.0 once, which migrates it to ${LAST_UNRELEASED}, and then this version`,
    );
}

async function readExecuted(db: Database): Promise<string[]> {
  const query = sql<{ name: string }>`select name from ${sql.table(DEFAULT_MIGRATION_TABLE)} order by name`;
  return query.execute(db).then(
    ({ rows }) => rows.map(({ name }) => name),
    () => [],
  );
}

/**
 * Returns the oldest schema version among the live servers, or undefined if none is alive. SQLite has no other servers.
 */
async function findOldestSchema(db: Database): Promise<string | undefined> {
  if (kindOf(db) === 'sqlite') return undefined;
  const now = sql<number>`extract(epoch from clock_timestamp()) * 1000`;
  const live = await db.selectFrom('server_leases').select('schema_version').where('lease_until', '>', now).execute();
  return live.map(({ schema_version }) => schema_version ?? '').sort()[0];
}
