import { setTimeout as delay } from 'node:timers/promises';
import type { Database } from '../db/database.ts';
import { prepareNow } from '../db/prepared-query.ts';
import { nameOf } from './idempotency-repository.ts';

const BITS = 2 ** 24;
const HASHES = 4;
/** With so many, one scope in 40 that is new is taken for a known one. */
const MOST = 2_000_000;
/** What is read at once, and the rest in between, so that nobody waits for it. */
const SLICE = 200;
const REST_MS = 5;

/**
 * Which scopes the database may have a record of: a Bloom filter of 2 MiB. What it does not know has none, as nobody else
 * writes to an embedded database; with more than it can tell apart it knows everything.
 */
export class KnownScopes {
  readonly #bits = new Uint32Array(BITS / 32);
  readonly #places = new Uint32Array(HASHES);
  #count = 0;
  #isWhole = false;

  /** Every record is to be added, before or when it is given to the database. */
  add(scope: string): void {
    this.#locate(scope);
    // Whoever asks for one again and again adds nothing.
    if (this.#areSet()) return;
    this.#count += 1;
    for (const place of this.#places) this.#bits[place >>> 5] = this.#wordAt(place) | (1 << (place & 31));
  }

  mayHave(scope: string): boolean {
    if (!this.#isWhole || this.#count > MOST) return true;
    this.#locate(scope);
    return this.#areSet();
  }

  /** Adds what the database has already. Until then anything may be known. Idempotent; ends when `isOver`. */
  async learn(db: Database, isOver: () => boolean): Promise<void> {
    const readAfter = prepareScopes(db);
    let after: string | undefined = '';
    while (after !== undefined && this.#count <= MOST && !isOver()) {
      after = this.#addSlice(readAfter({ after })?.rows, after);
      if (after !== undefined) await delay(REST_MS, undefined, { ref: false });
    }
    this.#isWhole = after === undefined;
  }

  /** What comes after those rows; undefined when nothing does. Of rows that could not be read now, the same again. */
  #addSlice(rows: readonly ScopeRow[] | undefined, after: string): string | undefined {
    if (!rows) return after;
    for (const { org_id: orgId, api_key_id: apiKeyId, method, route, key } of rows) {
      this.add(nameOf({ orgId, apiKeyId, method, route, key }));
    }
    return rows.length < SLICE ? undefined : rows.at(-1)?.id;
  }

  #areSet(): boolean {
    return this.#places.every((place) => (this.#wordAt(place) & (1 << (place & 31))) !== 0);
  }

  #wordAt(place: number): number {
    return this.#bits[place >>> 5] ?? 0;
  }

  /** Two hashes (FNV-1a, and one of its kind) stand for as many as there are places. */
  #locate(scope: string): void {
    let one = 0x811c9dc5;
    let other = 0x9e3779b9;
    for (let index = 0; index < scope.length; index++) {
      const code = scope.charCodeAt(index);
      one = Math.imul(one ^ code, 0x01000193);
      other = Math.imul(other ^ code, 0x85ebca6b) ^ (other >>> 13);
    }
    one ^= one >>> 15;
    for (let index = 0; index < HASHES; index++) this.#places[index] = (one + Math.imul(index, other | 1)) & (BITS - 1);
  }
}

type ScopeRow = ReturnType<ReturnType<typeof prepareScopes>> extends { rows: (infer Row)[] } | undefined ? Row : never;

function prepareScopes(db: Database) {
  return prepareNow(db, (slots: { after: string }) =>
    db
      .selectFrom('idempotency_records')
      .select(['id', 'org_id', 'api_key_id', 'method', 'route', 'key'])
      .where('id', '>', slots.after)
      .orderBy('id')
      .limit(SLICE),
  );
}
