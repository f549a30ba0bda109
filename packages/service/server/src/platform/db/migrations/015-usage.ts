import { type Kysely, sql } from 'kysely';
import type { Migration } from 'kysely/migration';

interface Before {
  sandboxes: { status: string; created_at: number; ready_at: number | null };
}

/** Adds when each sandbox became ready, and what has been counted of it and in each hour of each project. */
export const usage: Migration = {
  async up(db: Kysely<Before>): Promise<void> {
    await db.schema.alterTable('sandboxes').addColumn('ready_at', 'bigint').execute();
    // The time of sandboxes that exist already counts from their creation, which was milliseconds before.
    await db
      .updateTable('sandboxes')
      .set({ ready_at: sql.ref('created_at') })
      .where('status', '=', 'ready')
      .execute();

    let sandboxes = db.schema
      .createTable('sandbox_usage')
      .addColumn('sandbox_id', 'text', (column) => column.primaryKey())
      .addColumn('ended', 'integer', (column) => column.notNull());
    for (const name of COUNTED) sandboxes = sandboxes.addColumn(name, 'bigint', (column) => column.notNull());
    await sandboxes.execute();

    let hours = db.schema
      .createTable('usage_hours')
      .addColumn('org_id', 'text', (column) => column.notNull())
      .addColumn('hour', 'bigint', (column) => column.notNull())
      .addColumn('project_id', 'text', (column) => column.notNull());
    for (const name of SUMS) hours = hours.addColumn(name, 'bigint', (column) => column.notNull());
    await hours.addPrimaryKeyConstraint('usage_hours_key', ['org_id', 'hour', 'project_id']).execute();
  },
};

const SHARED = ['cpu_ms', 'memory_mb_ms', 'disk_mb_ms', 'egress_bytes', 'ingress_bytes', 'runs', 'commands'] as const;
const COUNTED = [
  ...SHARED,
  'version',
  'generation',
  'cpu_counter',
  'egress_counter',
  'ingress_counter',
  'counted_until',
] as const;
const SUMS = [...SHARED, 'sandbox_ms', 'workspace_runs', 'artifact_bytes'] as const;
