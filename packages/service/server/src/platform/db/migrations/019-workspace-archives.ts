import type { Kysely } from 'kysely';
import type { Migration } from 'kysely/migration';

const TIME = 'bigint';

/**
 * Adds the archives of workspace runs. A row is written before its content is stored, and deleted after it is removed.
 */
export const workspaceArchives: Migration = {
  async up(db: Kysely<unknown>): Promise<void> {
    await db.schema
      .createTable('workspace_archives')
      .addColumn('id', 'text', (column) => column.primaryKey())
      .addColumn('org_id', 'text', (column) => column.notNull())
      .addColumn('run_id', 'text', (column) => column.notNull())
      .addColumn('state', 'text', (column) => column.notNull())
      .addColumn('is_transfer', 'integer', (column) => column.notNull())
      .addColumn('format', 'text', (column) => column.notNull())
      .addColumn('size_bytes', 'bigint', (column) => column.notNull())
      .addColumn('sha256', 'text', (column) => column.notNull())
      .addColumn('created_at', TIME, (column) => column.notNull())
      .addColumn('expires_at', TIME, (column) => column.notNull())
      .execute();
    const index = (name: string) => db.schema.createIndex(name).on('workspace_archives');
    await index('workspace_archives_run').columns(['run_id', 'state']).execute();
    await index('workspace_archives_org').column('org_id').execute();
    await index('workspace_archives_state').columns(['state', 'expires_at']).execute();
  },
};
