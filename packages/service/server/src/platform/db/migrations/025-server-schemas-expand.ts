import type { Kysely } from 'kysely';
import type { Migration } from 'kysely/migration';

/**
 * Adds the newest migration that each server knows, by which others see whether it still needs what they want to
 * remove.
 */
export const serverSchemas: Migration = {
  async up(db: Kysely<unknown>): Promise<void> {
    await db.schema.alterTable('server_leases').addColumn('schema_version', 'text').execute();
  },
};
