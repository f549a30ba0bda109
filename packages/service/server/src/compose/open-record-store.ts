import type { Logger } from 'pino';
import type { Database } from '../platform/db/database.ts';
import { type DatabaseKind, kindOf } from '../platform/db/database-kind.ts';
import type { IdempotencyRecords, IdempotencyRepository } from '../platform/idempotency/idempotency-repository.ts';
import { JournaledRecords } from '../platform/idempotency/sqlite/journaled-records.ts';

export interface RecordStoreDeps {
  readonly db: Database;
  readonly repository: IdempotencyRepository;
  /** Path of the journal, for a database that uses one. Only this server uses the file. */
  readonly journalFile: string;
  readonly log: Logger;
}

export interface RecordStore {
  readonly records: IdempotencyRecords;
  /** Call it before the database is closed. */
  close(): Promise<void>;
}

/**
 * Opens the store of idempotency records for each kind of database. A SQLite database has one server, and a journal
 * replaces some of its transactions. Servers of one PostgreSQL database must see each other's claims at once, so the
 * database decides every claim.
 */
const STORES: Readonly<Record<DatabaseKind, (deps: RecordStoreDeps) => Promise<RecordStore>>> = {
  async sqlite({ db, repository, journalFile, log }) {
    const records = await JournaledRecords.open(db, repository, journalFile, log);
    return { records, close: () => records.close() };
  },
  async postgresql({ repository }) {
    return { records: repository, close: async () => undefined };
  },
};

export function openRecordStore(deps: RecordStoreDeps): Promise<RecordStore> {
  return STORES[kindOf(deps.db)](deps);
}
