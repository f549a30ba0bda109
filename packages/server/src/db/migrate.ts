import { sql } from 'kysely';
import { DEFAULT_MIGRATION_TABLE, type Migration, Migrator } from 'kysely/migration';
import type { Database } from './database.ts';
import { initial } from './migrations/001-initial.ts';
import { commands } from './migrations/002-commands.ts';
import { previews } from './migrations/003-previews.ts';
import { artifacts } from './migrations/004-artifacts.ts';
import { liveSandboxes } from './migrations/005-live-sandboxes.ts';
import { storedResults } from './migrations/006-stored-results.ts';
import { events } from './migrations/007-events.ts';
import { projects } from './migrations/008-projects.ts';
import { apiKeys } from './migrations/009-api-keys.ts';
import { quotas } from './migrations/010-quotas.ts';
import { webhooks } from './migrations/013-webhooks.ts';
import { audit } from './migrations/014-audit.ts';
import { usage } from './migrations/015-usage.ts';
import { secrets } from './migrations/016-secrets.ts';
import { endedKeys } from './migrations/017-ended-keys.ts';
import { workspaceRuns } from './migrations/018-workspace-runs.ts';
import { workspaceArchives } from './migrations/019-workspace-archives.ts';
import { customTemplates } from './migrations/020-custom-templates.ts';
import { owners } from './migrations/022-owners-expand.ts';
import { postgresPool } from './postgres-database.ts';

/** Applied in order of their names. A released migration never changes. */
const MIGRATIONS: Record<string, Migration> = {
  '001-initial': initial,
  '002-commands': commands,
  '003-previews': previews,
  '004-artifacts': artifacts,
  '005-live-sandboxes': liveSandboxes,
  '006-stored-results': storedResults,
  '007-events': events,
  '008-projects': projects,
  '009-api-keys': apiKeys,
  '010-quotas': quotas,
  '013-webhooks': webhooks,
  '014-audit': audit,
  '015-usage': usage,
  '016-secrets': secrets,
  '017-ended-keys': endedKeys,
  '018-workspace-runs': workspaceRuns,
  '019-workspace-archives': workspaceArchives,
  '020-custom-templates': customTemplates,
  '022-owners-expand': owners,
};

/**
 * Ends the names of migrations that older servers can work with: these add tables, indexes, and columns that are nullable or
 * have a default. So the servers of one database can be replaced one after another.
 */
const EXPANDING = '-expand';

/**
 * Migrates the tables to the newest schema; idempotent. Accepts a newer schema whose further migrations only expand it.
 *
 * @throws Error when a migration fails, or when a newer version has changed the database in another way
 */
export async function migrate(db: Database): Promise<void> {
  const migrator = new Migrator({ db, provider: { getMigrations: async () => MIGRATIONS } });
  const migrateAll = () => migrator.migrateToLatest();
  const { error } = await (postgresPool(db)?.withoutLimits(migrateAll) ?? migrateAll());
  if (error === undefined) return;
  const executed = await executedMigrations(db);
  const newer = executed.filter((name) => !(name in MIGRATIONS));
  const breaking = newer.filter((name) => !name.endsWith(EXPANDING));
  if (breaking.length > 0) {
    const message = `a newer version of Cloche has migrated the database (${breaking.join(', ')}); start that version, or restore a backup of the database`;
    throw new Error(message);
  }
  if (newer.length > 0 && executed.length - newer.length === Object.keys(MIGRATIONS).length) return;
  throw new Error('the database could not be migrated', { cause: error });
}

/** Returns the names of all migrations that were executed, or none if that cannot be read. */
async function executedMigrations(db: Database): Promise<string[]> {
  const query = sql<{ name: string }>`select name from ${sql.table(DEFAULT_MIGRATION_TABLE)} order by name`;
  return query.execute(db).then(
    ({ rows }) => rows.map(({ name }) => name),
    () => [],
  );
}
