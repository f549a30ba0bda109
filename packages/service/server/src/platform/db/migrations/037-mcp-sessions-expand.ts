import type { Kysely } from 'kysely';
import type { Migration } from 'kysely/migration';

/** Adds the sessions of MCP clients. */
export const mcpSessions: Migration = {
  async up(db: Kysely<unknown>): Promise<void> {
    await db.schema
      .createTable('mcp_sessions')
      .addColumn('id_hash', 'text', (column) => column.primaryKey())
      .addColumn('api_key_id', 'text', (column) => column.notNull())
      .addColumn('sandbox_id', 'text')
      .addColumn('log_level', 'text')
      .addColumn('used_at', 'bigint', (column) => column.notNull())
      .execute();
    await db.schema.createIndex('mcp_sessions_of_key').on('mcp_sessions').columns(['api_key_id', 'used_at']).execute();
    await db.schema.createIndex('mcp_sessions_used').on('mcp_sessions').column('used_at').execute();
  },
};
