import type { Kysely } from 'kysely';
import type { Migration } from 'kysely/migration';

const TIME = 'bigint';

/** Adds workspace runs, whose rows are also their queue, and logs of numbered entries. */
export const workspaceRuns: Migration = {
  async up(db: Kysely<unknown>): Promise<void> {
    await db.schema
      .createTable('workspace_runs')
      .addColumn('id', 'text', (column) => column.primaryKey())
      .addColumn('org_id', 'text', (column) => column.notNull())
      .addColumn('project_id', 'text', (column) => column.notNull())
      .addColumn('status', 'text', (column) => column.notNull())
      .addColumn('settings', 'text', (column) => column.notNull())
      .addColumn('template_version_id', 'text', (column) => column.notNull())
      .addColumn('metadata', 'text', (column) => column.notNull())
      .addColumn('auto_start', 'integer', (column) => column.notNull())
      .addColumn('archive', 'text')
      .addColumn('step', 'text')
      .addColumn('attempt', 'integer', (column) => column.notNull())
      .addColumn('sandbox_id', 'text')
      .addColumn('outcome', 'text')
      .addColumn('artifact_ids', 'text', (column) => column.notNull())
      .addColumn('created_at', TIME, (column) => column.notNull())
      .addColumn('queued_at', TIME)
      .addColumn('started_at', TIME)
      .addColumn('cancel_requested_at', TIME)
      .addColumn('finished_at', TIME)
      .addColumn('claimed_by', 'text')
      .addColumn('claimed_until', TIME)
      .addColumn('start_record_id', 'text')
      .addColumn('idempotency_record_id', 'text', (column) => column.unique())
      .execute();
    const index = (name: string) => db.schema.createIndex(name).on('workspace_runs');
    await index('workspace_runs_org').columns(['org_id', 'created_at']).execute();
    // Finds queued runs by their turn, and counts unfinished ones.
    await index('workspace_runs_queue').columns(['status', 'org_id', 'project_id', 'queued_at']).execute();
    // Finds runs that a server works on, or worked on when it ended.
    await index('workspace_runs_step').column('step').execute();
    await index('workspace_runs_finished').column('finished_at').execute();
    await db.schema
      .createTable('workspace_run_turns')
      .addColumn('scope_id', 'text', (column) => column.primaryKey())
      .addColumn('turn', TIME, (column) => column.notNull())
      .execute();
    await db.schema.alterTable('artifacts').addColumn('workspace_run_id', 'text').execute();
    await db.schema.createIndex('artifacts_workspace_run').on('artifacts').column('workspace_run_id').execute();
    await db.schema
      .createTable('sequence_logs')
      .addColumn('id', 'text', (column) => column.primaryKey())
      .addColumn('last_seq', 'bigint', (column) => column.notNull())
      .addColumn('source_seq', 'bigint', (column) => column.notNull())
      .addColumn('output_bytes', 'bigint', (column) => column.notNull())
      .addColumn('dropped_bytes', 'bigint', (column) => column.notNull())
      .addColumn('closed_at', TIME)
      .execute();
    await db.schema.createIndex('sequence_logs_closed').on('sequence_logs').column('closed_at').execute();
    await db.schema
      .createTable('sequence_log_entries')
      .addColumn('log_id', 'text', (column) => column.notNull())
      .addColumn('seq', 'bigint', (column) => column.notNull())
      .addColumn('type', 'text', (column) => column.notNull())
      .addColumn('at', TIME, (column) => column.notNull())
      .addColumn('data', 'text', (column) => column.notNull())
      .addColumn('bytes', 'integer', (column) => column.notNull())
      .addPrimaryKeyConstraint('sequence_log_entries_pk', ['log_id', 'seq'])
      .execute();
  },
};
