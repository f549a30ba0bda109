import type { Kysely } from 'kysely';
import type { Migration } from 'kysely/migration';

/** Adds what a protocol beside `/v1` keeps of a sandbox. */
export const sandboxNotes: Migration = {
  async up(db: Kysely<unknown>): Promise<void> {
    await db.schema
      .createTable('sandbox_notes')
      .addColumn('sandbox_id', 'text', (column) => column.notNull())
      .addColumn('name', 'text', (column) => column.notNull())
      .addColumn('value', 'text', (column) => column.notNull())
      .addPrimaryKeyConstraint('sandbox_notes_key', ['sandbox_id', 'name'])
      .execute();
  },
};
