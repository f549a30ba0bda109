import { type Kysely, sql } from 'kysely';
import type { Migration } from 'kysely/migration';

const TIME = 'bigint';

/** Adds templates of organizations with their versions, builds, whose rows are also their queue, and cached steps. */
export const customTemplates: Migration = {
  async up(db: Kysely<unknown>): Promise<void> {
    await db.schema
      .createTable('custom_templates')
      .addColumn('id', 'text', (column) => column.primaryKey())
      .addColumn('org_id', 'text', (column) => column.notNull())
      .addColumn('slug', 'text', (column) => column.notNull())
      .addColumn('description', 'text', (column) => column.notNull())
      .addColumn('languages', 'text', (column) => column.notNull())
      .addColumn('default_version_id', 'text')
      .addColumn('created_at', TIME, (column) => column.notNull())
      .addColumn('deleted_at', TIME)
      .addColumn('idempotency_record_id', 'text', (column) => column.unique())
      .execute();
    await db.schema
      .createIndex('custom_templates_slug')
      .unique()
      .on('custom_templates')
      .columns(['org_id', 'slug'])
      .where(sql<boolean>`deleted_at is null`)
      .execute();
    await db.schema
      .createTable('custom_template_versions')
      .addColumn('id', 'text', (column) => column.notNull())
      .addColumn('org_id', 'text', (column) => column.notNull())
      .addColumn('template_id', 'text', (column) => column.notNull().references('custom_templates.id'))
      .addColumn('build_id', 'text', (column) => column.notNull())
      .addColumn('from_version_id', 'text', (column) => column.notNull())
      .addColumn('version', 'text', (column) => column.notNull())
      .addColumn('digest', 'text', (column) => column.notNull())
      .addColumn('manifest', 'text', (column) => column.notNull())
      .addColumn('packages', 'text', (column) => column.notNull())
      .addColumn('resources', 'text', (column) => column.notNull())
      .addColumn('layers', 'integer', (column) => column.notNull())
      .addColumn('size_bytes', 'bigint', (column) => column.notNull())
      .addColumn('built_at', TIME, (column) => column.notNull())
      .addColumn('removed_at', TIME)
      .addPrimaryKeyConstraint('custom_template_versions_pk', ['template_id', 'id'])
      .execute();
    const index = (name: string) => db.schema.createIndex(name);
    await index('custom_template_versions_template')
      .on('custom_template_versions')
      .columns(['template_id', 'built_at'])
      .execute();
    await index('custom_template_versions_org').on('custom_template_versions').columns(['org_id', 'id']).execute();
    await index('custom_template_versions_from').on('custom_template_versions').column('from_version_id').execute();
    await db.schema
      .createTable('template_builds')
      .addColumn('id', 'text', (column) => column.primaryKey())
      .addColumn('org_id', 'text', (column) => column.notNull())
      .addColumn('template_id', 'text', (column) => column.notNull().references('custom_templates.id'))
      .addColumn('template_slug', 'text', (column) => column.notNull())
      .addColumn('status', 'text', (column) => column.notNull())
      .addColumn('plan', 'text', (column) => column.notNull())
      .addColumn('from_version_id', 'text', (column) => column.notNull())
      .addColumn('steps', 'text', (column) => column.notNull())
      .addColumn('launches', 'integer', (column) => column.notNull())
      .addColumn('failures', 'integer', (column) => column.notNull())
      .addColumn('sandbox_id', 'text')
      .addColumn('template_version_id', 'text')
      .addColumn('error', 'text')
      .addColumn('created_at', TIME, (column) => column.notNull())
      .addColumn('started_at', TIME)
      .addColumn('finished_at', TIME)
      .addColumn('next_attempt_at', TIME, (column) => column.notNull())
      .addColumn('claimed_by', 'text')
      .addColumn('claimed_until', TIME)
      .addColumn('idempotency_record_id', 'text', (column) => column.unique())
      .execute();
    await index('template_builds_template').on('template_builds').columns(['template_id', 'created_at']).execute();
    // Finds the builds that wait, run, or have left something to remove.
    await index('template_builds_unfinished')
      .on('template_builds')
      .columns(['org_id', 'created_at'])
      .where(sql<boolean>`finished_at is null or claimed_by is not null`)
      .execute();
    await db.schema
      .createTable('template_steps')
      .addColumn('org_id', 'text', (column) => column.notNull())
      .addColumn('key', 'text', (column) => column.notNull())
      .addColumn('version_id', 'text', (column) => column.notNull())
      .addColumn('from_version_id', 'text', (column) => column.notNull())
      .addColumn('layers', 'integer', (column) => column.notNull())
      .addColumn('size_bytes', 'bigint', (column) => column.notNull())
      .addColumn('packages', 'text')
      .addColumn('image_env', 'text')
      .addColumn('used_at', TIME, (column) => column.notNull())
      .addPrimaryKeyConstraint('template_steps_pk', ['org_id', 'key'])
      .execute();
    await index('template_steps_version').on('template_steps').column('version_id').execute();
  },
};
