import { closeSync, fstatSync, ftruncateSync, openSync, readFileSync, writeSync } from 'node:fs';
import type { ClaimRequest } from './idempotency-repository.ts';
import type { StoredResponse } from './stored-response.ts';

/** What became of one record. */
export type RecordChange =
  | { readonly claimed: ClaimRequest }
  | { readonly completed: { readonly id: string } & StoredResponse }
  | { readonly failed: string }
  | { readonly deleted: string };

/**
 * A file that keeps changes until the database has them: one line of JSON each, with the system once `append` returns,
 * so that they outlive this process as what the database was given does.
 */
export class RecordJournal {
  readonly #file: string;
  readonly #fd: number;
  #bytes: number;

  /** `file` is this server's alone; it is made, and what it holds stays until `clear`. */
  constructor(file: string) {
    this.#file = file;
    this.#fd = openSync(file, 'a', 0o600);
    this.#bytes = fstatSync(this.#fd).size;
  }

  /** All that was appended, in order; a last line that is not whole was never acted upon. */
  read(): RecordChange[] {
    const lines = readFileSync(this.#file, 'utf8').split('\n');
    lines.pop();
    const changes: RecordChange[] = [];
    for (const line of lines) {
      const change = parse(line);
      // After a loss of power the rest may be anything.
      if (change === undefined) break;
      changes.push(change);
    }
    return changes;
  }

  /** @throws Error where it cannot be written whole; then nothing of it stays. */
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

  /** The database has it all. */
  clear(): void {
    if (this.#bytes > 0) ftruncateSync(this.#fd, 0);
    this.#bytes = 0;
  }

  close(): void {
    closeSync(this.#fd);
  }
}

function noRoom(file: string): Error {
  return Object.assign(new Error(`${file}: no room for a change of a record`), { code: 'ENOSPC' });
}

/** Nothing else writes the file, so what is whole is a change. */
function parse(line: string): RecordChange | undefined {
  try {
    return JSON.parse(line) as RecordChange;
  } catch {
    return undefined;
  }
}
