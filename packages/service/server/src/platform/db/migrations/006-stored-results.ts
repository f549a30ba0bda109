import type { Kysely } from 'kysely';
import type { Migration } from 'kysely/migration';

/**
 * Adds the file of a large response to its record, and an index that alone answers how many bytes the records of each
 * organization take.
 */
export const storedResults: Migration = {
  async up(db: Kysely<unknown>): Promise<void> {
    const records = db.schema.alterTable('idempotency_records');
    await records.addColumn('response_file', 'text').execute();
    await records.addColumn('stored_bytes', 'bigint', (column) => column.notNull().defaultTo(0)).execute();
    await db.schema.dropIndex('idempotency_records_expires_at').execute();
    await db.schema
      .createIndex('idempotency_records_expiry')
      .on('idempotency_records')
      .columns(['expires_at', 'org_id', 'stored_bytes'])
      .execute();
  },
};
