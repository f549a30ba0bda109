import type { Kysely } from 'kysely';
import type { Migration } from 'kysely/migration';

/** Adds the resources to which sessions of MCP clients are subscribed. */
export const mcpSubscriptions: Migration = {
  async up(db: Kysely<unknown>): Promise<void> {
    await db.schema
      .alterTable('mcp_sessions')
      .addColumn('subscriptions', 'text', (column) => column.notNull().defaultTo('[]'))
      .execute();
  },
};
