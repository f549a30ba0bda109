import type { Kysely } from 'kysely';
import type { Migration } from 'kysely/migration';

/** Indexes sandboxes by status: queries for live sandboxes are frequent, and most rows are ended sandboxes. */
export const liveSandboxes: Migration = {
  async up(db: Kysely<unknown>): Promise<void> {
    // SQLite did not use a partial index: it does not infer that `status in (…)` implies `status not in (…)`.
    await db.schema.dropIndex('sandboxes_live_expiry').execute();
    await db.schema.createIndex('sandboxes_status').on('sandboxes').columns(['status', 'expires_at']).execute();
    await db.schema
      .createIndex('sandboxes_org_status')
      .on('sandboxes')
      .columns(['org_id', 'status', 'created_at'])
      .execute();
  },
};
