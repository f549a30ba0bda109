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
/** First migration from which on leases name the newest migration that their server knows. */
const NAMES_SCHEMAS = '025-server-schemas-expand';

export interface SchemaReport {
  /** Migrations that this call has applied. */
  readonly applied: string[];
  /** Migrations that wait until older servers have ended. */
  readonly waiting: string[];
  /** Migrations of a newer version that this version can work with. */
  readonly newer: string[];
}

/** The state of the database, read while this process holds the lock of the migrations. */
interface State {
  readonly executed: readonly string[];
  readonly oldestSchema: string | undefined;
}

/**
 * Applies the migrations that the database lacks, one process at a time.
 *
 * @param migrations those of this version, by name
 * @throws Error when a migration fails, or when a newer version has changed the database in a way that this one cannot
 * use
 */
export async function upgradeSchema(
  db: Database,
  migrations: Readonly<Record<string, Migration>>,
): Promise<SchemaReport> {
  // SQLite has one connection, which the migrator holds, and one server, so nothing changes meanwhile.
  const before = kindOf(db) === 'sqlite' ? await readState(db) : undefined;
  let plan: Plan = { migrations: {}, waiting: [], newer: [] };
  const migrator = new Migrator({
    db,
    // A branch may add a migration whose name sorts before one that is already applied.
    allowUnorderedMigrations: true,
    // The migrator calls it while it holds its lock.
    provider: {
      async getMigrations() {
        plan = planOf(migrations, before ?? (await readState(db)));
        return plan.migrations;
      },
    },
  });
  const migrateAll = () => migrator.migrateToLatest();
  const { error, results = [] } = await (postgresPool(db)?.withoutLimits(migrateAll) ?? migrateAll());
  if (error instanceof NewerSchemaError) throw error;
  if (error !== undefined) throw new Error('the database could not be migrated', { cause: error });
  const { waiting, newer } = plan;
  return { applied: results.map(({ migrationName }) => migrationName), waiting, newer };
}

/** A newer version has changed the database in a way that this one cannot use. */
class NewerSchemaError extends Error {
  constructor(breaking: readonly string[]) {
    super(
      `a newer version of Cloche has migrated the database (${breaking.join(', ')}); start that version, or restore a backup of the database`,
    );
  }
}

interface Plan {
  readonly migrations: Record<string, Migration>;
  readonly waiting: string[];
  readonly newer: string[];
}

function planOf(known: Readonly<Record<string, Migration>>, { executed, oldestSchema }: State): Plan {
  const newer = executed.filter((name) => !(name in known));
  const breaking = newer.filter((name) => !name.endsWith(EXPANDS));
  if (breaking.length > 0) throw new NewerSchemaError(breaking);
  const isTooOld = (name: string) => oldestSchema !== undefined && oldestSchema < name;
  const waiting = Object.keys(known).filter(
    (name) => name.endsWith(CONTRACTS) && !executed.includes(name) && isTooOld(name),
  );
  const allowed = Object.entries(known).filter(([name]) => !waiting.includes(name));
  // The migrator demands to know each migration that was executed.
  const executedByNewer = newer.map((name): [string, Migration] => [name, { up: async () => undefined }]);
  return { migrations: Object.fromEntries([...allowed, ...executedByNewer]), waiting, newer };
}

async function readState(db: Database): Promise<State> {
  const query = sql<{ name: string }>`select name from ${sql.table(DEFAULT_MIGRATION_TABLE)} order by name`;
  const executed = await query.execute(db).then(
    ({ rows }) => rows.map(({ name }) => name),
    () => [],
  );
  return { executed, oldestSchema: await findOldestSchema(db, executed) };
}

/**
 * Returns the oldest schema version among the live servers, or undefined if none is alive. SQLite has no other servers.
 */
async function findOldestSchema(db: Database, executed: readonly string[]): Promise<string | undefined> {
  if (kindOf(db) === 'sqlite' || executed.length === 0) return undefined;
  const now = sql<number>`extract(epoch from clock_timestamp()) * 1000`;
  if (!executed.includes(NAMES_SCHEMAS)) {
    const query = db.selectFrom('server_leases').select('id').where('lease_until', '>', now).limit(1);
    return (await query.executeTakeFirst()) && '';
  }
  const live = await db.selectFrom('server_leases').select('schema_version').where('lease_until', '>', now).execute();
  return live.map(({ schema_version }) => schema_version ?? '').sort()[0];
}
