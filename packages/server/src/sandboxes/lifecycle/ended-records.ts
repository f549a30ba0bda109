import { setImmediate } from 'node:timers/promises';
import type { Database } from '../../db/database.ts';

/** Records deleted in one transaction; bounds how long other requests wait for the database. */
const BATCH = 100;

/** Deletes the records of ended sandboxes after their retention period. */
export class EndedRecords {
  readonly #db: Database;

  constructor(db: Database) {
    this.#db = db;
  }

  /**
   * Deletes the records of sandboxes that ended before the time `before`, with those of their contexts, commands,
   * previews and usage. Returns the number of sandboxes. Keeps the records of sandboxes that have artifacts.
   */
  async forget(before: number): Promise<number> {
    let forgotten = 0;
    for (let batch = await this.#find(before); batch.length > 0; batch = await this.#find(before)) {
      await this.#delete(batch);
      forgotten += batch.length;
      await setImmediate();
    }
    return forgotten;
  }

  async #find(before: number): Promise<string[]> {
    const rows = await this.#db
      .selectFrom('sandboxes')
      .select('id')
      .where('status', 'in', ['destroyed', 'failed'])
      .where(({ fn, eb }) => eb(fn.coalesce('destroyed_at', 'created_at'), '<', before))
      .where(({ not, exists, selectFrom }) =>
        not(exists(selectFrom('artifacts').select('id').whereRef('artifacts.sandbox_id', '=', 'sandboxes.id'))),
      )
      .limit(BATCH)
      .execute();
    return rows.map(({ id }) => id);
  }

  async #delete(ids: readonly string[]): Promise<void> {
    await this.#db.transaction().execute(async (tx) => {
      for (const table of ['code_contexts', 'commands', 'previews', 'sandbox_usage', 'sandbox_activity'] as const) {
        await tx.deleteFrom(table).where('sandbox_id', 'in', ids).execute();
      }
      await tx.deleteFrom('sandboxes').where('id', 'in', ids).execute();
    });
  }
}
