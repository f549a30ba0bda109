import { type Kysely, sql } from 'kysely';
import type { Migration } from 'kysely/migration';

const TIME = 'bigint';

/**
 * Adds what clients can set of a project, its deletion, and a unique name. Until now, each organization has only its
 * default project, whose name is plain ASCII.
 */
export const projects: Migration = {
  async up(db: Kysely<unknown>): Promise<void> {
    const table = () => db.schema.alterTable('projects');
    await table()
      .addColumn('name_key', 'text', (column) => column.notNull().defaultTo(''))
      .execute();
    await table()
      .addColumn('metadata', 'text', (column) => column.notNull().defaultTo('{}'))
      .execute();
    await table()
      .addColumn('quotas', 'text', (column) => column.notNull().defaultTo('{}'))
      .execute();
    await table()
      .addColumn('updated_at', TIME, (column) => column.notNull().defaultTo(0))
      .execute();
    await table().addColumn('deleted_at', TIME).execute();
    await table().addColumn('idempotency_record_id', 'text').execute();
    await sql`update projects set name_key = lower(name), updated_at = created_at`.execute(db);
    await db.schema
      .createIndex('projects_name')
      .unique()
      .on('projects')
      .columns(['org_id', 'name_key'])
      .where(sql<boolean>`deleted_at is null`)
      .execute();
    await db.schema
      .createIndex('projects_idempotency')
      .unique()
      .on('projects')
      .column('idempotency_record_id')
      .execute();
  },
};
