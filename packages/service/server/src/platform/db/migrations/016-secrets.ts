import type { Kysely } from 'kysely';
import type { Migration } from 'kysely/migration';

const TIME = 'bigint';

/** Adds secrets, and the placeholders that each sandbox has for them. */
export const secrets: Migration = {
  async up(db: Kysely<unknown>): Promise<void> {
    await db.schema
      .createTable('secrets')
      .addColumn('id', 'text', (column) => column.primaryKey())
      .addColumn('org_id', 'text', (column) => column.notNull())
      .addColumn('project_id', 'text', (column) => column.notNull())
      .addColumn('name', 'text', (column) => column.notNull())
      .addColumn('hosts', 'text', (column) => column.notNull())
      .addColumn('value', 'text', (column) => column.notNull())
      .addColumn('created_at', TIME, (column) => column.notNull())
      .addColumn('updated_at', TIME, (column) => column.notNull())
      .addColumn('deleted_at', TIME)
      .addColumn('idempotency_record_id', 'text', (column) => column.unique())
      .execute();
    await db.schema.createIndex('secrets_org').on('secrets').columns(['org_id', 'created_at']).execute();
    await db.schema.alterTable('sandboxes').addColumn('secrets', 'text').execute();
  },
};
