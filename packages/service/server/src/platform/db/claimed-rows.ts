import type { Kysely } from 'kysely';
import type { Database } from './database.ts';
import type { Transaction } from './transactions.ts';

/** Tables whose rows are claimed. */
type ClaimedTable = 'template_builds' | 'webhooks' | 'workspace_runs';
interface ClaimedTables {
  readonly [table: string]: { id: string; claimed_by: string | null; claimed_until: number | null };
}

/**
 * Lets one process of all servers work on a row at a time, by a claim in the row itself. A claim ends when its time is
 * over, or when the server of a killed process starts again.
 */
export class ClaimedRows {
  /** Duration of a claim without renewal. */
  readonly claimMs: number;
  readonly #db: Kysely<ClaimedTables>;
  readonly #table: ClaimedTable;

  constructor(db: Database, table: ClaimedTable, claimMs: number) {
    // Sound: every table of `ClaimedTable` has these columns.
    this.#db = db as unknown as Kysely<ClaimedTables>;
    this.#table = table;
    this.claimMs = claimMs;
  }

  /** Claims a row that no other process has claimed. `claim` is the id of the server, a colon, and a random text. */
  async acquire(id: string, claim: string, now: number): Promise<boolean> {
    const { numUpdatedRows } = await this.#db
      .updateTable(this.#table)
      .set({ claimed_by: claim, claimed_until: now + this.claimMs })
      .where('id', '=', id)
      .where((eb) => eb.or([eb('claimed_by', 'is', null), eb('claimed_until', '<=', now)]))
      .executeTakeFirst();
    return numUpdatedRows > 0n;
  }

  /**
   * Prolongs a claim, in `tx` if it is given. Returns false if `claim` no longer holds the row; the caller must then
   * stop its work.
   */
  async renew(id: string, claim: string, now: number, tx?: Transaction): Promise<boolean> {
    const db = (tx?.db as unknown as Kysely<ClaimedTables> | undefined) ?? this.#db;
    const { numUpdatedRows } = await db
      .updateTable(this.#table)
      .set({ claimed_until: now + this.claimMs })
      .where('id', '=', id)
      .where('claimed_by', '=', claim)
      .executeTakeFirst();
    return numUpdatedRows > 0n;
  }

  async release(id: string, claim: string): Promise<void> {
    await this.#db
      .updateTable(this.#table)
      .set({ claimed_by: null, claimed_until: null })
      .where('id', '=', id)
      .where('claimed_by', '=', claim)
      .execute();
  }

  /** Releases the rows that an earlier process of the server had claimed. */
  async releaseAllOf(serverId: string): Promise<void> {
    await this.#db
      .updateTable(this.#table)
      .set({ claimed_by: null, claimed_until: null })
      .where('claimed_by', 'like', `${serverId}:%`)
      .execute();
  }
}
