import type { Kysely } from 'kysely';
import type { Migration } from 'kysely/migration';

/** Adds an index that finds when a build of an organization last began, because organizations take turns. */
export const buildTurns: Migration = {
  async up(db: Kysely<unknown>): Promise<void> {
    await db.schema
      .createIndex('template_builds_started')
      .on('template_builds')
      .columns(['org_id', 'started_at'])
      .execute();
  },
};
