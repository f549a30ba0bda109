import type { Kysely } from 'kysely';
import type { Migration } from 'kysely/migration';

/** Adds the time of creation by the clock alone, for the limit of creations: `created_at` also keeps the order. */
export const plannedTimes: Migration = {
  async up(db: Kysely<unknown>): Promise<void> {
    await db.schema.alterTable('sandboxes').addColumn('planned_at', 'bigint').execute();
  },
};
