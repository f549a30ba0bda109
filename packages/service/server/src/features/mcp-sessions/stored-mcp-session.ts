import type { McpSession } from '@cloche/mcp';
import type { Database } from '../../platform/db/database.ts';
import type { McpSessionTable } from '../../platform/db/tables/server-tables.ts';

/** A session as one request has read it. */
export class StoredMcpSession implements McpSession {
  readonly name: string;
  readonly sandboxId: string | undefined;
  readonly logLevel: McpSession['logLevel'];
  readonly #db: Database;

  constructor(db: Database, { id_hash, sandbox_id, log_level }: McpSessionTable) {
    this.#db = db;
    this.name = id_hash;
    this.sandboxId = sandbox_id ?? undefined;
    // Sound: only `setLogLevel` writes it.
    this.logLevel = (log_level ?? undefined) as McpSession['logLevel'];
  }

  async replaceSandbox(sandboxId: string): Promise<string | undefined> {
    const { numUpdatedRows } = await this.#db
      .updateTable('mcp_sessions')
      .set({ sandbox_id: sandboxId })
      .where('id_hash', '=', this.name)
      .where('sandbox_id', this.sandboxId === undefined ? 'is' : '=', this.sandboxId ?? null)
      .executeTakeFirst();
    if (numUpdatedRows > 0n) return sandboxId;
    const row = await this.#db
      .selectFrom('mcp_sessions')
      .select('sandbox_id')
      .where('id_hash', '=', this.name)
      .executeTakeFirst();
    return row?.sandbox_id ?? undefined;
  }

  async setLogLevel(level: NonNullable<McpSession['logLevel']>): Promise<void> {
    await this.#db.updateTable('mcp_sessions').set({ log_level: level }).where('id_hash', '=', this.name).execute();
  }
}
