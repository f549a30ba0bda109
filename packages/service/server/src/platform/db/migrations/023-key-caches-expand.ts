import type { Kysely } from 'kysely';
import type { Migration } from 'kysely/migration';

/** Adds what lets a revocation of an API key be in force on every server of the database before it is answered. */
export const keyCaches: Migration = {
  async up(db: Kysely<unknown>): Promise<void> {
    await db.schema
      .createTable('key_epochs')
      .addColumn('id', 'integer', (column) => column.primaryKey())
      .addColumn('epoch', 'bigint', (column) => column.notNull())
      .execute();
    await db.schema
      .createTable('key_caches')
      .addColumn('server_id', 'text', (column) => column.primaryKey())
      .addColumn('epoch', 'bigint', (column) => column.notNull())
      .addColumn('valid_until', 'bigint', (column) => column.notNull())
      .execute();
  },
};
