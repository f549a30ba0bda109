import { type Kysely, SqliteAdapter, sql } from 'kysely';
import type { Migration } from 'kysely/migration';

/** Column type for times and byte counts. They exceed 32 bits: SQLite's `integer` holds them, PostgreSQL's does not. */
const TIME = 'bigint';

export const initial: Migration = {
  async up(db: Kysely<unknown>): Promise<void> {
    await createTenants(db);
    await createIdempotency(db);
    await createTemplates(db);
    await createSandboxes(db);
  },
};

async function createTenants(db: Kysely<unknown>): Promise<void> {
  await db.schema
    .createTable('orgs')
    .addColumn('id', 'text', (column) => column.primaryKey())
    .addColumn('name', 'text', (column) => column.notNull().unique())
    .addColumn('created_at', TIME, (column) => column.notNull())
    .execute();
  await db.schema
    .createTable('projects')
    .addColumn('id', 'text', (column) => column.primaryKey())
    .addColumn('org_id', 'text', (column) => column.notNull().references('orgs.id'))
    .addColumn('name', 'text', (column) => column.notNull())
    .addColumn('is_default', 'integer', (column) => column.notNull())
    .addColumn('created_at', TIME, (column) => column.notNull())
    .execute();
  await db.schema
    .createIndex('projects_one_default')
    .unique()
    .on('projects')
    .column('org_id')
    .where(sql.ref('is_default'), '=', sql.lit(1))
    .execute();
  await db.schema
    .createTable('api_keys')
    .addColumn('id', 'text', (column) => column.primaryKey())
    .addColumn('org_id', 'text', (column) => column.notNull().references('orgs.id'))
    .addColumn('name', 'text', (column) => column.notNull())
    .addColumn('public_part', 'text', (column) => column.unique())
    .addColumn('secret_hash', 'text', (column) => column.notNull().unique())
    .addColumn('scopes', 'text', (column) => column.notNull())
    .addColumn('project_ids', 'text')
    .addColumn('created_at', TIME, (column) => column.notNull())
    .addColumn('expires_at', TIME)
    .addColumn('revoked_at', TIME)
    .execute();
}

async function createIdempotency(db: Kysely<unknown>): Promise<void> {
  await db.schema
    .createTable('idempotency_records')
    .addColumn('id', 'text', (column) => column.primaryKey())
    .addColumn('org_id', 'text', (column) => column.notNull())
    .addColumn('api_key_id', 'text', (column) => column.notNull())
    .addColumn('method', 'text', (column) => column.notNull())
    .addColumn('route', 'text', (column) => column.notNull())
    .addColumn('key', 'text', (column) => column.notNull())
    .addColumn('body_hash', 'text', (column) => column.notNull())
    .addColumn('state', 'text', (column) => column.notNull())
    .addColumn('owner', 'text', (column) => column.notNull())
    .addColumn('response_status', 'integer')
    .addColumn('response_body', 'text')
    .addColumn('created_at', TIME, (column) => column.notNull())
    .addColumn('expires_at', TIME, (column) => column.notNull())
    .addUniqueConstraint('idempotency_scope', ['org_id', 'api_key_id', 'method', 'route', 'key'])
    .execute();
  await db.schema
    .createIndex('idempotency_records_expires_at')
    .on('idempotency_records')
    .column('expires_at')
    .execute();
  await db.schema
    .createIndex('idempotency_records_in_progress')
    .on('idempotency_records')
    .column('owner')
    .where(sql.ref('state'), '=', sql.lit('in_progress'))
    .execute();
  await db.schema
    .createTable('server_leases')
    .addColumn('id', 'text', (column) => column.primaryKey())
    .addColumn('lease_until', TIME, (column) => column.notNull())
    .execute();
}

async function createTemplates(db: Kysely<unknown>): Promise<void> {
  await db.schema
    .createTable('templates')
    .addColumn('id', 'text', (column) => column.primaryKey())
    .addColumn('slug', 'text', (column) => column.notNull().unique())
    .addColumn('description', 'text', (column) => column.notNull())
    .addColumn('languages', 'text', (column) => column.notNull())
    .addColumn('created_at', TIME, (column) => column.notNull())
    .execute();
  await db.schema
    .createTable('template_versions')
    .addColumn('id', 'text', (column) => column.notNull().unique())
    .addColumn('template_id', 'text', (column) => column.notNull().references('templates.id'))
    .addColumn('version', 'text', (column) => column.notNull())
    .addColumn('digest', 'text', (column) => column.notNull())
    .addColumn('packages', 'text', (column) => column.notNull())
    .addColumn('built_at', TIME, (column) => column.notNull())
    .addColumn('seq', 'integer', (column) => {
      const key = column.primaryKey();
      return db.getExecutor().adapter instanceof SqliteAdapter
        ? key.autoIncrement()
        : key.generatedByDefaultAsIdentity();
    })
    .addUniqueConstraint('template_versions_digest', ['template_id', 'digest'])
    .execute();
}

async function createSandboxes(db: Kysely<unknown>): Promise<void> {
  await db.schema
    .createTable('sandboxes')
    .addColumn('id', 'text', (column) => column.primaryKey())
    .addColumn('org_id', 'text', (column) => column.notNull().references('orgs.id'))
    .addColumn('project_id', 'text', (column) => column.notNull().references('projects.id'))
    .addColumn('status', 'text', (column) => column.notNull())
    .addColumn('generation', 'integer', (column) => column.notNull())
    .addColumn('template_id', 'text', (column) => column.notNull())
    .addColumn('template_slug', 'text', (column) => column.notNull())
    .addColumn('template_version', 'text', (column) => column.notNull())
    .addColumn('template_version_id', 'text', (column) => column.notNull())
    .addColumn('ttl_ms', TIME, (column) => column.notNull())
    .addColumn('idle_timeout_ms', TIME)
    .addColumn('expires_at', TIME, (column) => column.notNull())
    .addColumn('metadata', 'text', (column) => column.notNull())
    .addColumn('env', 'text', (column) => column.notNull())
    .addColumn('network_policy', 'text', (column) => column.notNull())
    .addColumn('resources', 'text', (column) => column.notNull())
    .addColumn('used', 'integer', (column) => column.notNull())
    .addColumn('last_active_at', TIME)
    .addColumn('instance', 'text')
    .addColumn('created_at', TIME, (column) => column.notNull())
    .addColumn('destroyed_at', TIME)
    .addColumn('destroyed_reason', 'text')
    .addColumn('failure_reason', 'text')
    .addColumn('ending_reason', 'text')
    .addColumn('idempotency_record_id', 'text', (column) => column.unique())
    .execute();
  await db.schema.createIndex('sandboxes_org_created').on('sandboxes').columns(['org_id', 'created_at']).execute();
  await db.schema
    .createIndex('sandboxes_live_expiry')
    .on('sandboxes')
    .column('expires_at')
    .where(sql<boolean>`status not in ('destroyed', 'failed')`)
    .execute();
  await db.schema
    .createTable('code_contexts')
    .addColumn('id', 'text', (column) => column.primaryKey())
    .addColumn('sandbox_id', 'text', (column) => column.notNull().references('sandboxes.id'))
    .addColumn('generation', 'integer', (column) => column.notNull())
    .addColumn('language', 'text', (column) => column.notNull())
    .addColumn('cwd', 'text', (column) => column.notNull())
    .addColumn('is_default', 'integer', (column) => column.notNull())
    .addColumn('timeout_ms', TIME)
    .addColumn('created_at', TIME, (column) => column.notNull())
    .addColumn('deleted_at', TIME)
    .addColumn('idempotency_record_id', 'text')
    .addUniqueConstraint('code_contexts_idempotency', ['sandbox_id', 'idempotency_record_id'])
    .execute();
  await db.schema
    .createIndex('code_contexts_one_default')
    .unique()
    .on('code_contexts')
    .columns(['sandbox_id', 'language', 'generation'])
    .where(sql<boolean>`is_default = 1 and deleted_at is null`)
    .execute();
}
