import type { Kysely } from 'kysely';
import type { Migration } from 'kysely/migration';

const TIME = 'bigint';

export const previews: Migration = {
  async up(db: Kysely<unknown>): Promise<void> {
    await db.schema
      .createTable('previews')
      .addColumn('id', 'text', (column) => column.primaryKey())
      .addColumn('org_id', 'text', (column) => column.notNull().references('orgs.id'))
      .addColumn('project_id', 'text', (column) => column.notNull().references('projects.id'))
      .addColumn('sandbox_id', 'text', (column) => column.notNull().references('sandboxes.id'))
      .addColumn('port', 'integer', (column) => column.notNull())
      .addColumn('visibility', 'text', (column) => column.notNull())
      .addColumn('token_hash', 'text')
      .addColumn('created_at', TIME, (column) => column.notNull())
      .addColumn('expires_at', TIME)
      .addColumn('deleted_at', TIME)
      .addColumn('idempotency_record_id', 'text')
      .execute();
    await db.schema.createIndex('previews_sandbox').on('previews').column('sandbox_id').execute();
    await db.schema.createIndex('previews_org_created').on('previews').columns(['org_id', 'created_at']).execute();
  },
};
