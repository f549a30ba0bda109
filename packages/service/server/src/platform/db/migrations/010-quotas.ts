import type { Kysely } from 'kysely';
import type { Migration } from 'kysely/migration';

const OCCUPYING = ['creating', 'starting', 'ready', 'expiring'] as const;

interface Before {
  sandboxes: { id: string; status: string; resources: string; cpu_millis: number; memory_mb: number };
  projects: { quotas: string; limited: number };
}

/**
 * Adds the limits of organizations, the mark of the projects in which limits apply, what each sandbox counts towards
 * them, the times of the last
 * events about refusals, and the requests of the last minute.
 */
export const quotas: Migration = {
  async up(db: Kysely<Before>): Promise<void> {
    await db.schema
      .alterTable('orgs')
      .addColumn('quotas', 'text', (column) => column.notNull().defaultTo('{}'))
      .execute();
    await db.schema
      .alterTable('projects')
      .addColumn('limited', 'integer', (column) => column.notNull().defaultTo(0))
      .execute();
    const sandboxes = db.schema.alterTable('sandboxes');
    await sandboxes.addColumn('cpu_millis', 'integer', (column) => column.notNull().defaultTo(0)).execute();
    await sandboxes.addColumn('memory_mb', 'integer', (column) => column.notNull().defaultTo(0)).execute();
    await db.schema
      .createTable('quota_refusals')
      .addColumn('scope_id', 'text', (column) => column.notNull())
      .addColumn('quota', 'text', (column) => column.notNull())
      .addColumn('announced_at', 'bigint', (column) => column.notNull())
      .addPrimaryKeyConstraint('quota_refusals_key', ['scope_id', 'quota'])
      .execute();
    await db.schema
      .createTable('request_counts')
      .addColumn('scope_id', 'text', (column) => column.notNull())
      .addColumn('second', 'bigint', (column) => column.notNull())
      .addColumn('process_id', 'text', (column) => column.notNull())
      .addColumn('requests', 'integer', (column) => column.notNull())
      .addPrimaryKeyConstraint('request_counts_key', ['scope_id', 'second', 'process_id'])
      .execute();
    await db.updateTable('projects').set({ limited: 1 }).where('quotas', '<>', '{}').execute();
    const live = await db
      .selectFrom('sandboxes')
      .select(['id', 'resources'])
      .where('status', 'in', OCCUPYING)
      .execute();
    for (const { id, resources } of live) {
      const { cpu, memoryMb } = JSON.parse(resources) as { cpu: number; memoryMb: number };
      const counted = { cpu_millis: Math.round(cpu * 1000), memory_mb: memoryMb };
      await db.updateTable('sandboxes').set(counted).where('id', '=', id).execute();
    }
  },
};
