import type { Kysely } from 'kysely';
import type { Migration } from 'kysely/migration';

/** Adds the layers of images that builds share. */
export const imageLayers: Migration = {
  async up(db: Kysely<unknown>): Promise<void> {
    await db.schema
      .createTable('image_layers')
      .addColumn('name', 'text', (column) => column.primaryKey())
      .addColumn('org_id', 'text', (column) => column.notNull())
      .addColumn('digest', 'text')
      .addColumn('size_bytes', 'bigint', (column) => column.notNull())
      .addColumn('build_id', 'text')
      .addColumn('used_at', 'bigint', (column) => column.notNull())
      .execute();
    await db.schema
      .createIndex('image_layers_of_org')
      .on('image_layers')
      .columns(['org_id', 'digest'])
      .unique()
      .execute();
    await db.schema.createIndex('image_layers_used').on('image_layers').column('used_at').execute();
  },
};
