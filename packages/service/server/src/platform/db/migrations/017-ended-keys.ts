import type { Kysely } from 'kysely';
import type { Migration } from 'kysely/migration';

/** Finds the previews of a key, without which the deletion of a key would read all previews. */
export const endedKeys: Migration = {
  async up(db: Kysely<unknown>): Promise<void> {
    await db.schema.createIndex('previews_api_key').on('previews').column('api_key_id').execute();
  },
};
