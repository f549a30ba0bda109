import type { Kysely } from 'kysely';
import type { Migration } from 'kysely/migration';

/** Live sandboxes are looked for all the time, and are few among those that have ended. */
export const liveSandboxes: Migration = {
  async up(db: Kysely<unknown>): Promise<void> {
    // A partial index was not used: SQLite does not see that "is one of these" means "is none of those".
    await db.schema.dropIndex('sandboxes_live_expiry').execute();
    await db.schema.createIndex('sandboxes_status').on('sandboxes').columns(['status', 'expires_at']).execute();
    await db.schema
      .createIndex('sandboxes_org_status')
      .on('sandboxes')
      .columns(['org_id', 'status', 'created_at'])
      .execute();
  },
};
