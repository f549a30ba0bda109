import type { Kysely } from 'kysely';
import type { Migration } from 'kysely/migration';

const BIG = 'bigint';

export const artifacts: Migration = {
  async up(db: Kysely<unknown>): Promise<void> {
    await db.schema
      .createTable('artifacts')
      .addColumn('id', 'text', (column) => column.primaryKey())
      .addColumn('org_id', 'text', (column) => column.notNull().references('orgs.id'))
      .addColumn('project_id', 'text', (column) => column.notNull().references('projects.id'))
      .addColumn('sandbox_id', 'text', (column) => column.notNull().references('sandboxes.id'))
      .addColumn('name', 'text', (column) => column.notNull())
      .addColumn('path', 'text')
      .addColumn('content_type', 'text', (column) => column.notNull())
      .addColumn('size_bytes', BIG, (column) => column.notNull())
      .addColumn('sha256', 'text', (column) => column.notNull())
      .addColumn('metadata', 'text', (column) => column.notNull())
      .addColumn('created_at', BIG, (column) => column.notNull())
      .addColumn('expires_at', BIG)
      .addColumn('deleted_at', BIG)
      .addColumn('idempotency_record_id', 'text', (column) => column.unique())
      .execute();
    await db.schema.createIndex('artifacts_sha256').on('artifacts').column('sha256').execute();
    await db.schema.createIndex('artifacts_org_created').on('artifacts').columns(['org_id', 'created_at']).execute();
    await db.schema
      .createTable('server_secrets')
      .addColumn('name', 'text', (column) => column.primaryKey())
      .addColumn('value', 'text', (column) => column.notNull())
      .execute();
  },
};
