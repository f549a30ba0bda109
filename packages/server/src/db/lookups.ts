import type { Database, Tables } from './database.ts';
import { embeddedDatabase } from './prepared-query.ts';

/** Of each kind; past it they are forgotten, all of them. */
const VALUES_KEPT = 10_000;

/**
 * Remembers what look-ups have found, until one of the tables that they read is written. No other process writes to an
 * embedded database; of a database of another kind nothing is remembered. What was not found is looked for again.
 */
export class Lookups<Value> {
  readonly #database;
  readonly #tables: readonly (keyof Tables)[];
  readonly #found = new Map<string, Value>();
  #version = -1;

  /** @param tables every table that the look-ups read */
  constructor(db: Database, tables: readonly (keyof Tables)[]) {
    this.#database = embeddedDatabase(db);
    this.#tables = tables;
  }

  /** The value of `key`, which `read` gives. Those who get the same one must not change it. */
  async find(key: string, read: () => Promise<Value | undefined>): Promise<Value | undefined> {
    const database = this.#database;
    // What a transaction has written may yet be undone.
    if (!database || database.isInTransaction) return read();
    const version = database.versionOf(this.#tables);
    if (this.#version !== version || this.#found.size >= VALUES_KEPT) {
      this.#found.clear();
      this.#version = version;
    }
    const known = this.#found.get(key);
    if (known !== undefined) return known;
    const value = await read();
    if (value !== undefined && database.versionOf(this.#tables) === version) this.#found.set(key, value);
    return value;
  }
}
