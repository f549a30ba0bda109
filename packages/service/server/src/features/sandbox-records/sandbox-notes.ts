import type { Database } from '../../platform/db/database.ts';
import type { Transaction } from '../../platform/db/transactions.ts';

/**
 * What a protocol beside `/v1` keeps of a sandbox, such as the directory of a context as its client knows it. Every
 * server reads it. It is deleted with the record of the sandbox.
 */
export class SandboxNotes {
  readonly #db: Database;

  constructor(db: Database) {
    this.#db = db;
  }

  async put(sandboxId: string, name: string, value: string, tx?: Transaction): Promise<void> {
    await (tx?.db ?? this.#db)
      .insertInto('sandbox_notes')
      .values({ sandbox_id: sandboxId, name, value })
      .onConflict((conflict) => conflict.columns(['sandbox_id', 'name']).doUpdateSet({ value }))
      .execute();
  }

  /** Returns all of a sandbox, by their names. */
  async all(sandboxId: string, tx?: Transaction): Promise<ReadonlyMap<string, string>> {
    const notes = (tx?.db ?? this.#db).selectFrom('sandbox_notes').select(['name', 'value']);
    return new Map((await notes.where('sandbox_id', '=', sandboxId).execute()).map(({ name, value }) => [name, value]));
  }

  /** Removes those whose name begins with `prefix` and is not among `names`. */
  async keep(sandboxId: string, prefix: string, names: readonly string[]): Promise<void> {
    const kept = await this.all(sandboxId);
    const gone = [...kept.keys()].filter((name) => name.startsWith(prefix) && !names.includes(name));
    if (gone.length === 0) return;
    await this.#db.deleteFrom('sandbox_notes').where('sandbox_id', '=', sandboxId).where('name', 'in', gone).execute();
  }
}
