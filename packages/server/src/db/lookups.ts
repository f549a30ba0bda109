import type { Database } from './database.ts';
import { embeddedDatabase } from './prepared-query.ts';

/** Of each kind; past it they are forgotten, all of them. */
const VALUES_KEPT = 10_000;

/**
 * Remembers what look-ups have found, until anything is written to the database: nobody else writes to one that is
 * embedded, and of another kind nothing is remembered. What was not found is looked for again.
 */
export class Lookups<Value> {
  readonly #database;
  readonly #found = new Map<string, Value>();
  #version = -1;

  constructor(db: Database) {
    this.#database = embeddedDatabase(db);
  }

  /** The value of `key`, which `read` gives. Those who get the same one must not change it. */
  async find(key: string, read: () => Promise<Value | undefined>): Promise<Value | undefined> {
    const database = this.#database;
    // What a transaction has written may yet be undone.
    if (!database || database.isInTransaction) return read();
    const { version } = database;
    if (this.#version !== version || this.#found.size >= VALUES_KEPT) {
      this.#found.clear();
      this.#version = version;
    }
    const known = this.#found.get(key);
    if (known !== undefined) return known;
    const value = await read();
    if (value !== undefined && database.version === version) this.#found.set(key, value);
    return value;
  }
}
