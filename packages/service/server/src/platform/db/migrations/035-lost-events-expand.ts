import type { Kysely } from 'kysely';
import type { Migration } from 'kysely/migration';

/** Adds the events that were deleted before a webhook could send them. */
export const lostEvents: Migration = {
  async up(db: Kysely<unknown>): Promise<void> {
    for (const column of ['lost_first_seq', 'lost_last_seq']) {
      await db.schema.alterTable('webhooks').addColumn(column, 'bigint').execute();
    }
  },
};
