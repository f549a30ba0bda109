import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { it } from 'node:test';
import { sql } from 'kysely';
import { openTestDatabase } from '../../../testing/test-database.ts';
import { kindOf } from './database-kind.ts';

/** The file that deletes rows of each table which grows with what clients do. */
const DELETED_BY: Readonly<Record<string, string>> = {
  api_keys: 'api-keys/ended-keys.ts',
  artifacts: 'projects/deleted-records.ts',
  audit_events: 'audit/audit-retention.ts',
  audited_expiries: 'api-keys/ended-keys.ts',
  code_contexts: 'sandboxes/lifecycle/ended-records.ts',
  commands: 'sandboxes/lifecycle/ended-records.ts',
  content_removals: 'artifacts/content-removals.ts',
  custom_template_versions: 'templates/builds/remove-versions.ts',
  custom_templates: 'projects/deleted-records.ts',
  events: 'outbox/event-outbox.ts',
  idempotency_records: 'idempotency/idempotency-repository.ts',
  image_layers: 'templates/layers/image-layer-repository.ts',
  key_caches: 'api-keys/key-caches.ts',
  mcp_sessions: 'mcp-sessions/sql-mcp-sessions.ts',
  previews: 'sandboxes/lifecycle/ended-records.ts',
  projects: 'projects/deleted-records.ts',
  quota_refusals: 'projects/deleted-records.ts',
  replay_parts: 'idempotency/replay-parts.ts',
  request_counts: 'quotas/request-counts.ts',
  sandbox_activity: 'sandboxes/lifecycle/ended-records.ts',
  sandbox_notes: 'sandboxes/lifecycle/ended-records.ts',
  sandbox_usage: 'sandboxes/lifecycle/ended-records.ts',
  sandboxes: 'sandboxes/lifecycle/ended-records.ts',
  secrets: 'projects/deleted-records.ts',
  sequence_log_entries: 'sequence-log/sequence-log.ts',
  sequence_logs: 'sequence-log/sequence-log.ts',
  server_leases: 'cluster/server-lease.ts',
  template_builds: 'templates/builds/remove-versions.ts',
  template_steps: 'templates/builds/remove-versions.ts',
  webhook_deliveries: 'webhooks/delivery-repository.ts',
  webhooks: 'projects/deleted-records.ts',
  workspace_archives: 'workspace-runs/archive/archive-repository.ts',
  workspace_run_turns: 'projects/deleted-records.ts',
  workspace_runs: 'workspace-runs/execution/run-upkeep.ts',
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
