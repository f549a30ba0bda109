import type { Kysely } from 'kysely';
import type { Migration } from 'kysely/migration';

const TIME = 'bigint';

/** Adds a key's creator and its last use, and the key that created a preview; the preview ends with that key. */
export const apiKeys: Migration = {
  async up(db: Kysely<unknown>): Promise<void> {
    const keys = db.schema.alterTable('api_keys');
    await keys.addColumn('created_by', 'text').execute();
    await keys.addColumn('last_used_at', TIME).execute();
    await keys.addColumn('rotated_from', 'text').execute();
    await keys.addColumn('idempotency_record_id', 'text').execute();
    await db.schema.createIndex('api_keys_org_created').on('api_keys').columns(['org_id', 'created_at']).execute();
    await db.schema.createIndex('api_keys_idempotency').on('api_keys').column('idempotency_record_id').execute();
    await db.schema
      .alterTable('previews')
      .addColumn('api_key_id', 'text', (column) => column.references('api_keys.id'))
      .execute();
  },
};
