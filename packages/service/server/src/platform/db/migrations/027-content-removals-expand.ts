import type { Kysely } from 'kysely';
import type { Migration } from 'kysely/migration';

/** Adds the contents of artifacts whose removal was sent to a bucket, and until when it may arrive there. */
export const contentRemovals: Migration = {
  async up(db: Kysely<unknown>): Promise<void> {
    await db.schema
      .createTable('content_removals')
      .addColumn('sha256', 'text', (column) => column.primaryKey())
      .addColumn('until', 'bigint', (column) => column.notNull())
      .execute();
  },
};
