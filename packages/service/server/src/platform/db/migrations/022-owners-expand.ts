import type { Kysely } from 'kysely';
import type { Migration } from 'kysely/migration';

/**
 * Adds what lets several servers share sandboxes: which server launches a sandbox, which one watches a command, and
 * what each server knows of the activity of sandboxes.
 */
export const owners: Migration = {
  async up(db: Kysely<unknown>): Promise<void> {
    await db.schema.alterTable('sandboxes').addColumn('launch_owner', 'text').execute();
    await db.schema.alterTable('commands').addColumn('watched_by', 'text').execute();
    await db.schema
      .createTable('sandbox_activity')
      .addColumn('sandbox_id', 'text', (column) => column.notNull())
      .addColumn('server_id', 'text', (column) => column.notNull())
      .addColumn('running', 'integer', (column) => column.notNull())
      .addColumn('last_active_at', 'bigint', (column) => column.notNull())
      .addPrimaryKeyConstraint('sandbox_activity_key', ['sandbox_id', 'server_id'])
      .execute();
  },
};
