import type { Kysely } from 'kysely';
import type { Migration } from 'kysely/migration';

/** Adds where each server runs, and counts the claims of each idempotency record. */
export const claims: Migration = {
  async up(db: Kysely<unknown>): Promise<void> {
    await db.schema.alterTable('server_leases').addColumn('host', 'text').execute();
    await db.schema.alterTable('server_leases').addColumn('version', 'text').execute();
    await db.schema
      .alterTable('idempotency_records')
      .addColumn('claim', 'integer', (column) => column.notNull().defaultTo(1))
      .execute();
  },
};
