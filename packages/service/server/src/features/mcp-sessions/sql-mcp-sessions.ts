import { createHash, randomBytes } from 'node:crypto';
import type { ApiKeyId, SandboxId } from '@cloche/contract';
import type { McpSession } from '@cloche/mcp';
import type { Changes } from '../../platform/base/changes.ts';
import type { Clock } from '../../platform/base/clock.ts';
import type { Database } from '../../platform/db/database.ts';
import type { Transactions } from '../../platform/db/transactions.ts';
import { StoredMcpSession } from './stored-mcp-session.ts';

/** Most sessions of a key. One more ends those that were not used for the longest time. */
export const SESSIONS_PER_KEY = 1000;
/** A session ends when it is not used for this long. Its sandbox ends long before. */
export const SESSION_IDLE_MS = 86_400_000;
/** Precision of the time of the last use: a request writes it only if it is older. */
const USE_MS = 60_000;
const ID_BYTES = 32;
/** Rows deleted by one statement; bounds how long other requests wait for the database. */
const BATCH = 100;

export interface SqlMcpSessionsDeps {
  readonly db: Database;
  readonly transactions: Transactions;
  readonly clock: Clock;
  /** Wakes the streams of a session, by its name, when its subscriptions have changed or it has ended. */
  readonly changes: Changes<string>;
}

/** The sessions of MCP clients, each bound to the key that opened it. Every server of the database finds them. */
export class SqlMcpSessions {
  readonly #db: Database;
  readonly #transactions: Transactions;
  readonly #clock: Clock;
  readonly #changes: Changes<string>;

  constructor({ db, transactions, clock, changes }: SqlMcpSessionsDeps) {
    this.#db = db;
    this.#transactions = transactions;
    this.#clock = clock;
    this.#changes = changes;
  }

  /** Opens a session, and returns its id. The database has only a hash of it. */
  async open(apiKeyId: ApiKeyId): Promise<string> {
    const id = randomBytes(ID_BYTES).toString('base64url');
    const session = {
      id_hash: hashOf(id),
      api_key_id: apiKeyId,
      sandbox_id: null,
      log_level: null,
      subscriptions: '[]',
    };
    await this.#transactions.run(async ({ db }) => {
      await db
        .insertInto('mcp_sessions')
        .values({ ...session, used_at: this.#clock.now() })
        .execute();
      const tooMany = db
        .selectFrom('mcp_sessions')
        .select('id_hash')
        .where('api_key_id', '=', apiKeyId)
        .orderBy('used_at', 'desc')
        .limit(BATCH)
        .offset(SESSIONS_PER_KEY);
      await db.deleteFrom('mcp_sessions').where('id_hash', 'in', tooMany).execute();
    });
    return id;
  }

  /** Returns undefined for an unknown session, one that has ended, and one of another key. */
  async find(apiKeyId: ApiKeyId, id: string): Promise<McpSession | undefined> {
    const now = this.#clock.now();
    const row = await this.#db
      .selectFrom('mcp_sessions')
      .selectAll()
      .where('id_hash', '=', hashOf(id))
      .where('api_key_id', '=', apiKeyId)
      .where('used_at', '>', now - SESSION_IDLE_MS)
      .executeTakeFirst();
    if (!row) return undefined;
    if (row.used_at < now - USE_MS) {
      await this.#db.updateTable('mcp_sessions').set({ used_at: now }).where('id_hash', '=', row.id_hash).execute();
    }
    return new StoredMcpSession(this.#db, this.#changes, row);
  }

  /** Ends a session. Returns what it had, or undefined as `find` does. */
  async end(apiKeyId: ApiKeyId, id: string): Promise<{ sandboxId: SandboxId | undefined } | undefined> {
    const row = await this.#db
      .deleteFrom('mcp_sessions')
      .where('id_hash', '=', hashOf(id))
      .where('api_key_id', '=', apiKeyId)
      .returning('sandbox_id')
      .executeTakeFirst();
    if (row) this.#changes.notify(hashOf(id));
    return row && { sandboxId: (row.sandbox_id ?? undefined) as SandboxId | undefined };
  }

  /** Ends all sessions of a key. Returns the sandboxes that they had. */
  async endOfKey(apiKeyId: ApiKeyId): Promise<SandboxId[]> {
    const rows = await this.#db
      .deleteFrom('mcp_sessions')
      .where('api_key_id', '=', apiKeyId)
      .returning(['id_hash', 'sandbox_id'])
      .execute();
    for (const { id_hash } of rows) this.#changes.notify(id_hash);
    return rows.flatMap(({ sandbox_id }) => (sandbox_id === null ? [] : [sandbox_id as SandboxId]));
  }

  /** Deletes sessions that were not used for too long. Returns their number. */
  async forget(): Promise<number> {
    const before = this.#clock.now() - SESSION_IDLE_MS;
    const old = this.#db.selectFrom('mcp_sessions').select('id_hash').where('used_at', '<=', before).limit(BATCH);
    for (let forgotten = 0; ; ) {
      const { numDeletedRows } = await this.#db
        .deleteFrom('mcp_sessions')
        .where('id_hash', 'in', old)
        .executeTakeFirst();
      forgotten += Number(numDeletedRows);
      if (numDeletedRows < BATCH) return forgotten;
    }
  }
}

function hashOf(id: string): string {
  return createHash('sha256').update(id).digest('hex');
}
