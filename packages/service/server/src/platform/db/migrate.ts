import type { Migration } from 'kysely/migration';
import type { Database } from './database.ts';
import { firstRelease } from './migrations/040-first-release.ts';
import { pauses } from './migrations/041-pauses-expand.ts';
import { pausePolicies } from './migrations/042-pause-policies-expand.ts';
import { names } from './migrations/043-names-expand.ts';
import { versions } from './migrations/044-versions-expand.ts';
import { keptDisks } from './migrations/045-kept-disks-expand.ts';
import { pauseAccounts } from './migrations/046-pause-accounts-expand.ts';
import { type SchemaReport, upgradeSchema } from './upgrade-schema.ts';

/**
 * Applied in order of their names. A released migration never changes. The end of each later name says what the
 * migration does to older servers (`upgrade-schema.ts`).
 */
export const MIGRATIONS: Record<string, Migration> = {
  '040-first-release': firstRelease,
  '041-pauses-expand': pauses,
  '042-pause-policies-expand': pausePolicies,
  '043-names-expand': names,
  '044-versions-expand': versions,
  '045-kept-disks-expand': keptDisks,
  '046-pause-accounts-expand': pauseAccounts,
};

/** The newest migration of this version. */
export const SCHEMA_VERSION = Object.keys(MIGRATIONS).sort().at(-1) ?? '';

/**
 * Migrates the tables to the newest schema; idempotent. Accepts a newer schema whose further migrations only expand it.
 *
 * @throws Error when a migration fails, or when a newer version has changed the database in another way
 */
export function migrate(db: Database): Promise<SchemaReport> {
  return upgradeSchema(db, MIGRATIONS);
}
