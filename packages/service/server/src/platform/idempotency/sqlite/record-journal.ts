import { closeSync, fstatSync, ftruncateSync, openSync, readFileSync, writeSync } from 'node:fs';
import type { ClaimRequest } from '../idempotency-repository.ts';
import type { StoredResponse } from '../stored-response.ts';

/** A change of one record. */
export type RecordChange =
  | { readonly claimed: ClaimRequest }
  | { readonly completed: { readonly id: string } & StoredResponse }
  | { readonly failed: string }
  | { readonly deleted: string };

/**
 * A file that keeps changes until the database has them, as one line of JSON each. Once `append` returns, the system
 * has the line, so it survives this process as a committed write does.
 */
export class RecordJournal {
  readonly #file: string;
  readonly #fd: number;
  #bytes: number;

  /** @param file belongs to this server alone. It is created if missing, and keeps its content until `clear`. */
  constructor(file: string) {
    this.#file = file;
    this.#fd = openSync(file, 'a', 0o600);
    this.#bytes = fstatSync(this.#fd).size;
  }

  /** Returns all changes in order. Skips an incomplete last line, which was never acted upon. */
  read(): RecordChange[] {
    const lines = readFileSync(this.#file, 'utf8').split('\n');
    lines.pop();
    const changes: RecordChange[] = [];
    for (const line of lines) {
      const change = parse(line);
      // After a power loss the rest may be garbage.
      if (change === undefined) break;
      changes.push(change);
    }
    return changes;
  }

  /** @throws Error if the change cannot be written completely; no part of it then stays in the file. */
  append(change: RecordChange): void {
    const line = Buffer.from(`${JSON.stringify(change)}\n`);
    try {
      const written = writeSync(this.#fd, line);
      if (written < line.length) throw noRoom(this.#file);
    } catch (error) {
      ftruncateSync(this.#fd, this.#bytes);
      throw error;
    }
    this.#bytes += line.length;
  }

  /** Empties the journal once the database has all changes. */
  clear(): void {
    if (this.#bytes > 0) ftruncateSync(this.#fd, 0);
    this.#bytes = 0;
  }

  close(): void {
    closeSync(this.#fd);
  }
}

function noRoom(file: string): Error {
  return Object.assign(new Error(`${file}: there is no room for a change of a record`), { code: 'ENOSPC' });
}

/**
 * Returns the change of a line, or undefined if it is not JSON. Only this class writes the file, so valid JSON is a
 * change.
 */
function parse(line: string): RecordChange | undefined {
  try {
    return JSON.parse(line) as RecordChange;
  } catch {
    return undefined;
  }
}
