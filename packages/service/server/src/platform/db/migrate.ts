import type { Migration } from 'kysely/migration';
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
import { claims } from './migrations/021-claims-expand.ts';
import { owners } from './migrations/022-owners-expand.ts';
import { keyCaches } from './migrations/023-key-caches-expand.ts';
import { serverSchemas } from './migrations/025-server-schemas-expand.ts';
import { replayParts } from './migrations/026-replay-parts-expand.ts';
import { contentRemovals } from './migrations/027-content-removals-expand.ts';
import { failureKinds } from './migrations/028-failure-kinds-expand.ts';
import { archiveAttempts } from './migrations/029-archive-attempts-expand.ts';
import { lists } from './migrations/030-lists-expand.ts';
import { deletedRecords } from './migrations/031-deleted-records-expand.ts';
import { changesAndRevocations } from './migrations/032-changes-and-revocations-expand.ts';
import { buildTurns } from './migrations/033-build-turns-expand.ts';
import { plannedTimes } from './migrations/034-planned-times-expand.ts';
import { lostEvents } from './migrations/035-lost-events-expand.ts';
import { sandboxNotes } from './migrations/036-sandbox-notes-expand.ts';
import { mcpSessions } from './migrations/037-mcp-sessions-expand.ts';
import { imageLayers } from './migrations/038-image-layers-expand.ts';
import { mcpSubscriptions } from './migrations/039-mcp-subscriptions-expand.ts';
import { type SchemaReport, upgradeSchema } from './upgrade-schema.ts';

/**
 * Applied in order of their names. A released migration never changes. From 021 on, the end of each name says what it
 * does to older servers (`upgrade-schema.ts`).
 */
export const MIGRATIONS: Record<string, Migration> = {
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
  '021-claims-expand': claims,
  '022-owners-expand': owners,
  '023-key-caches-expand': keyCaches,
  '025-server-schemas-expand': serverSchemas,
  '026-replay-parts-expand': replayParts,
  '027-content-removals-expand': contentRemovals,
  '028-failure-kinds-expand': failureKinds,
  '029-archive-attempts-expand': archiveAttempts,
  '030-lists-expand': lists,
  '031-deleted-records-expand': deletedRecords,
  '032-changes-and-revocations-expand': changesAndRevocations,
  '033-build-turns-expand': buildTurns,
  '034-planned-times-expand': plannedTimes,
  '035-lost-events-expand': lostEvents,
  '036-sandbox-notes-expand': sandboxNotes,
  '037-mcp-sessions-expand': mcpSessions,
  '038-image-layers-expand': imageLayers,
  '039-mcp-subscriptions-expand': mcpSubscriptions,
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
