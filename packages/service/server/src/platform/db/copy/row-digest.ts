import { createHash } from 'node:crypto';
import type { Table } from './table-list.ts';

export type Row = Readonly<Record<string, unknown>>;

const MASK = (1n << 256n) - 1n;

/**
 * Counts the rows of a table and adds up their SHA-256 hashes. The sum does not depend on the order of the rows,
 * because two databases sort texts differently. Each of several equal rows counts.
 */
export class RowDigest {
  readonly #columns: readonly string[];
  #sum = 0n;
  #rows = 0;

  constructor({ columns }: Table) {
    this.#columns = columns;
  }

  get rows(): number {
    return this.#rows;
  }

  get text(): string {
    return this.#sum.toString(16).padStart(64, '0');
  }

  add(row: Row): void {
    const values = this.#columns.map((column) => storedText(row[column]));
    const hash = createHash('sha256').update(JSON.stringify(values)).digest('hex');
    this.#sum = (this.#sum + BigInt(`0x${hash}`)) & MASK;
    this.#rows += 1;
  }

  equals(other: RowDigest): boolean {
    return this.#rows === other.#rows && this.#sum === other.#sum;
  }
}

/** Returns a value as PostgreSQL stores it. Its texts cannot contain NUL, which `postgres-pool.ts` replaces. */
function storedText(value: unknown): unknown {
  if (value === null || typeof value === 'number') return value;
  if (typeof value === 'string') return value.replaceAll('\0', '\u{fffd}');
  throw new Error(`a column has a value of the type ${typeof value}, which the copy does not know`);
}
