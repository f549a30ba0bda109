import type { Database, Tables } from './database.ts';
import { embeddedDatabase } from './embedded-database.ts';

/** Most values kept. Beyond this, all values are dropped. */
const VALUES_KEPT = 10_000;

/**
 * Caches values until one of the tables that they were read from is written. Only an embedded database is cached,
 * because only this process writes to it. The absence of a value is cached too: an unknown id then takes as long to
 * look up as an id of another organization, which the caller refuses after the look-up. Most runs need no query: a
 * cached value takes 1 µs, a prepared query 5 µs.
 */
export class Lookups<Value> {
  readonly #database;
  readonly #tables: readonly (keyof Tables)[];
  readonly #found = new Map<string, Value | undefined>();
  #version = -1;

  /** @param tables every table that the look-ups read */
  constructor(db: Database, tables: readonly (keyof Tables)[]) {
    this.#database = embeddedDatabase(db);
    this.#tables = tables;
  }

  /** Returns the value of `key`, calling `read` if it is not cached. Callers share the value and must not change it. */
  async find(key: string, read: () => Promise<Value | undefined>): Promise<Value | undefined> {
    const database = this.#database;
    // Writes of an open transaction may still be rolled back.
    if (!database || database.isInTransaction) return read();
    const version = database.versionOf(this.#tables);
    if (this.#version !== version || this.#found.size >= VALUES_KEPT) {
      this.#found.clear();
      this.#version = version;
    }
    const known = this.#found.get(key);
    if (known !== undefined || this.#found.has(key)) return known;
    const value = await read();
    if (database.versionOf(this.#tables) === version) this.#found.set(key, value);
    return value;
  }
}
