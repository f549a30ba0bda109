import { type Kysely, sql } from 'kysely';
import type { Migration } from 'kysely/migration';

const TIME = 'bigint';

export const commands: Migration = {
  async up(db: Kysely<unknown>): Promise<void> {
    await db.schema
      .createTable('commands')
      .addColumn('id', 'text', (column) => column.primaryKey())
      .addColumn('sandbox_id', 'text', (column) => column.notNull().references('sandboxes.id'))
      .addColumn('generation', 'integer', (column) => column.notNull())
      .addColumn('command', 'text', (column) => column.notNull())
      .addColumn('cwd', 'text', (column) => column.notNull())
      .addColumn('user', 'text', (column) => column.notNull())
      .addColumn('background', 'integer', (column) => column.notNull())
      .addColumn('status', 'text', (column) => column.notNull())
      .addColumn('exit_code', 'integer')
      .addColumn('signal', 'text')
      .addColumn('failure_reason', 'text')
      .addColumn('started_at', TIME, (column) => column.notNull())
      .addColumn('finished_at', TIME)
      .addColumn('duration_ms', TIME)
      .addColumn('idempotency_record_id', 'text')
      .addUniqueConstraint('commands_idempotency', ['sandbox_id', 'idempotency_record_id'])
      .execute();
    await db.schema.createIndex('commands_of_sandbox').on('commands').columns(['sandbox_id', 'started_at']).execute();
    await db.schema
      .createIndex('commands_running')
      .on('commands')
      .column('sandbox_id')
      .where(sql<boolean>`status = 'running'`)
      .execute();
  },
};
