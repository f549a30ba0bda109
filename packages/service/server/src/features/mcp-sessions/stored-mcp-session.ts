import type { McpSession } from '@cloche/mcp';
import { orAbort } from '@cloche/node-support';
import type { Changes } from '../../platform/base/changes.ts';
import type { Database } from '../../platform/db/database.ts';
import type { McpSessionTable } from '../../platform/db/tables/server-tables.ts';

/** A session as one request has read it. */
export class StoredMcpSession implements McpSession {
  readonly name: string;
  readonly sandboxId: string | undefined;
  readonly logLevel: McpSession['logLevel'];
  readonly #db: Database;
  readonly #changes: Changes<string>;

  constructor(db: Database, changes: Changes<string>, { id_hash, sandbox_id, log_level }: McpSessionTable) {
    this.#db = db;
    this.#changes = changes;
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

  async subscribe(uri: string, most: number): Promise<boolean> {
    return this.#change((uris) => {
      if (uris.includes(uri)) return uris;
      return uris.length < most ? [...uris, uri] : undefined;
    });
  }

  async unsubscribe(uri: string): Promise<void> {
    await this.#change((uris) => uris.filter((each) => each !== uri));
  }

  async *follow(signal: AbortSignal): AsyncGenerator<readonly string[]> {
    using watch = this.#changes.watch(this.name);
    for (let last: string | undefined; !signal.aborted; ) {
      const next = watch.next();
      const now = await this.#subscriptions();
      if (now === undefined) return;
      if (now !== last) yield JSON.parse(now);
      last = now;
      await orAbort(next, signal).catch((error) => {
        if (!signal.aborted) throw error;
      });
    }
  }

  async #subscriptions(): Promise<string | undefined> {
    const row = await this.#db
      .selectFrom('mcp_sessions')
      .select('subscriptions')
      .where('id_hash', '=', this.name)
      .executeTakeFirst();
    return row?.subscriptions;
  }

  /** Replaces the subscriptions unless another call has changed them meanwhile. Returns false if `change` refuses. */
  async #change(change: (uris: readonly string[]) => readonly string[] | undefined): Promise<boolean> {
    for (;;) {
      const before = await this.#subscriptions();
      // The session has ended: nothing can follow it.
      if (before === undefined) return true;
      const after = change(JSON.parse(before));
      if (after === undefined) return false;
      const { numUpdatedRows } = await this.#db
        .updateTable('mcp_sessions')
        .set({ subscriptions: JSON.stringify(after) })
        .where('id_hash', '=', this.name)
        .where('subscriptions', '=', before)
        .executeTakeFirst();
      if (numUpdatedRows === 0n) continue;
      this.#changes.notify(this.name);
      return true;
    }
  }
}
