import type { Kysely } from 'kysely';
import type { Migration } from 'kysely/migration';

/** Adds how often servers have begun to unpack the archive of a workspace run, so that an agent can order them. */
export const archiveAttempts: Migration = {
  async up(db: Kysely<unknown>): Promise<void> {
    await db.schema
      .alterTable('workspace_runs')
      .addColumn('archive_attempts', 'integer', (column) => column.notNull().defaultTo(0))
      .execute();
  },
};
