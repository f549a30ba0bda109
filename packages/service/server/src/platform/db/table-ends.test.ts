import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { it } from 'node:test';
import { sql } from 'kysely';
import { openTestDatabase } from '../../../testing/test-database.ts';
import { kindOf } from './database-kind.ts';

/** The file that deletes rows of each table which grows with what clients do. */
const DELETED_BY: Readonly<Record<string, string>> = {
  api_keys: 'platform/keys/ended-keys.ts',
  artifacts: 'platform/tenancy/deleted-records.ts',
  audit_events: 'platform/audit-log/audit-retention.ts',
  audited_expiries: 'platform/keys/ended-keys.ts',
  code_contexts: 'features/sandboxes/lifecycle/ended-records.ts',
  commands: 'features/sandboxes/lifecycle/ended-records.ts',
  content_removals: 'features/artifacts/content-removals.ts',
  custom_template_versions: 'features/templates/builds/remove-versions.ts',
  custom_templates: 'platform/tenancy/deleted-records.ts',
  events: 'platform/outbox/event-outbox.ts',
  idempotency_records: 'platform/idempotency/idempotency-repository.ts',
  image_layers: 'features/templates/layers/image-layer-repository.ts',
  key_caches: 'platform/keys/key-caches.ts',
  mcp_sessions: 'features/mcp-sessions/sql-mcp-sessions.ts',
  previews: 'features/sandboxes/lifecycle/ended-records.ts',
  projects: 'platform/tenancy/deleted-records.ts',
  quota_refusals: 'platform/tenancy/deleted-records.ts',
  replay_parts: 'platform/idempotency/replay-parts.ts',
  request_counts: 'features/quotas/request-counts.ts',
  sandbox_activity: 'features/sandboxes/lifecycle/ended-records.ts',
  sandbox_notes: 'features/sandboxes/lifecycle/ended-records.ts',
  sandbox_usage: 'features/sandboxes/lifecycle/ended-records.ts',
  sandboxes: 'features/sandboxes/lifecycle/ended-records.ts',
  secrets: 'platform/tenancy/deleted-records.ts',
  sequence_log_entries: 'platform/sequence-log/sequence-log.ts',
  sequence_logs: 'platform/sequence-log/sequence-log.ts',
  server_leases: 'platform/cluster/server-lease.ts',
  template_builds: 'features/templates/builds/remove-versions.ts',
  template_steps: 'features/templates/builds/remove-versions.ts',
  webhook_deliveries: 'features/webhooks/delivery-repository.ts',
  webhooks: 'platform/tenancy/deleted-records.ts',
  workspace_archives: 'features/workspace-runs/archive/archive-repository.ts',
  workspace_run_turns: 'platform/tenancy/deleted-records.ts',
  workspace_runs: 'features/workspace-runs/execution/run-upkeep.ts',
};

/** Why each other table does not grow with what clients do. */
const BOUNDED: Readonly<Record<string, string>> = {
  audit_cuts: 'one row for each organization',
  audit_heads: 'one row for each organization',
  event_sequences: 'one row for each organization',
  key_epochs: 'one row',
  orgs: 'only the operator creates organizations',
  server_secrets: 'one row for each purpose',
  usage_hours: 'kept for good, as the operator knows: one row for each hour in which a project used something',
  templates: 'one row for each curated template',
  template_versions: 'one row for each build of a curated template by the operator',
};

it('every table has a named end: what deletes its rows, or why it does not grow', async () => {
  await using db = await openTestDatabase();
  const names =
    kindOf(db) === 'sqlite'
      ? sql<{ name: string }>`select name from sqlite_master where type = 'table' and name not like 'sqlite_%'`
      : sql<{ name: string }>`select tablename as name from pg_tables where schemaname = current_schema()`;
  const tables = (await names.execute(db)).rows.map(({ name }) => name).filter((name) => !name.startsWith('kysely_'));
  assert.deepEqual(tables.sort(), [...Object.keys(DELETED_BY), ...Object.keys(BOUNDED)].sort());
  for (const [table, file] of Object.entries(DELETED_BY)) {
    const source = readFileSync(new URL(`../../${file}`, import.meta.url), 'utf8');
    assert.ok(
      source.includes('deleteFrom(') && source.includes(`'${table}'`),
      `${file} does not delete rows of ${table}`,
    );
  }
});
