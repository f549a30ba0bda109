import { type Migration, Migrator } from 'kysely/migration';
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
};

/**
 * Migrates the tables to the newest schema; idempotent. Throws when a migration fails or when the database is newer.
 */
export async function migrate(db: Database): Promise<void> {
  const migrator = new Migrator({ db, provider: { getMigrations: async () => MIGRATIONS } });
  const { error } = await migrator.migrateToLatest();
  if (error !== undefined) throw new Error('the database could not be migrated', { cause: error });
}
