import { setImmediate } from 'node:timers/promises';
import { orAbort } from '@cloche/node-support';
import { type Selectable, sql } from 'kysely';
import { Changes } from '../base/changes.ts';
import type { Clock } from '../base/clock.ts';
import type { Database } from '../db/database.ts';
import type { SequenceLogEntryTable } from '../db/tables/sequence-log-tables.ts';
import type { Transaction, Transactions } from '../db/transactions.ts';
import { dropOldest } from './drop-oldest.ts';

/** Entries read by one query. */
const READ_AT_ONCE = 64;
/** Counted for each entry of output besides its bytes, so that a flood of small entries is bounded too. */
export const ENTRY_OVERHEAD_BYTES = 100;
/** JSON of the entries of one page, in bytes. A page exceeds it by less than one entry. */
const PAGE_BYTES = 4 * 1024 * 1024;
/** Entries deleted by one statement, which takes a few milliseconds. */
const FORGOTTEN_AT_ONCE = 500;

export interface NewLogEntry {
  readonly type: string;
  /** Any JSON value. */
  readonly data: unknown;
  /** Bytes of output; undefined for an entry of the server itself, which is never dropped. */
  readonly outputBytes?: number;
}

export interface LogEntry {
  readonly seq: number;
  readonly type: string;
  /** When the service wrote it. Milliseconds since the epoch. */
  readonly at: number;
  readonly data: unknown;
}

export interface LogPage {
  readonly data: readonly LogEntry[];
  /** Value of `afterSeq` for the next page. */
  readonly nextSeq: number;
  readonly hasMore: boolean;
}

/** Range of the output's source that appended entries come from: the numbers after `after`, up to `upTo`. */
export interface SourceRange {
  readonly after: number;
  readonly upTo: number;
}

export interface SequenceLogDeps {
  readonly db: Database;
  readonly transactions: Transactions;
  readonly clock: Clock;
}

export interface SequenceLogOptions {
  /** Output kept in one log, `ENTRY_OVERHEAD_BYTES` for each entry included; the oldest is dropped first. */
  readonly keptBytes: number;
  /** Changes by the id of the log; those of this server alone by default. */
  readonly appended?: Changes<string>;
}

/**
 * Logs of numbered entries in the database, one for each resource. The server that works on the resource appends; any
 * server can read a log in pages or follow it. Numbers begin at 1, and entries become visible in the order of their
 * numbers.
 */
export class SequenceLog {
  readonly #deps: SequenceLogDeps;
  readonly #options: SequenceLogOptions;
  readonly #appended: Changes<string>;

  constructor(deps: SequenceLogDeps, options: SequenceLogOptions) {
    this.#deps = deps;
    this.#options = options;
    this.#appended = options.appended ?? new Changes();
  }

  /**
   * Appends entries, in `tx` if it is given. With `source`, appends them only if the log ends exactly at
   * `source.after`: if two processes copy the same output, only one appends each part. A log that has ended gets no more
   * entries, so that a process that goes on late writes none after the last. Returns whether it appended.
   */
  async append(
    id: string,
    entries: readonly NewLogEntry[],
    { tx: joined, source }: { readonly tx?: Transaction; readonly source?: SourceRange } = {},
  ): Promise<boolean> {
    const { transactions, clock } = this.#deps;
    const at = clock.now();
    const output = entries.reduce((bytes, entry) => bytes + storedBytes(entry), 0);
    return transactions.run(async (tx) => {
      const log = await this.#number(tx, id, { count: entries.length, output, source });
      if (!log) return false;
      const first = log.last_seq - entries.length + 1;
      const rows = entries.map((entry, index) => ({
        log_id: id,
        seq: first + index,
        type: entry.type,
        at,
        data: JSON.stringify(entry.data),
        bytes: storedBytes(entry),
      }));
      if (rows.length > 0) await tx.db.insertInto('sequence_log_entries').values(rows).execute();
      const { keptBytes } = this.#options;
      // At least what is kept: dropped entries are counted here too.
      if (log.output_bytes - log.dropped_bytes + log.last_seq * ENTRY_OVERHEAD_BYTES > keptBytes) {
        await dropOldest(tx, log, { keptBytes, at, overheadBytes: ENTRY_OVERHEAD_BYTES });
      }
      tx.afterCommit(() => this.#appended.notify(id));
      return true;
    }, joined);
  }

  /** Ends a log. Readers that follow it end after its last entry. */
  async close(id: string, joined?: Transaction): Promise<void> {
    await this.#deps.transactions.run(async (tx) => {
      const closed = { closed_at: this.#deps.clock.now() };
      await tx.db.updateTable('sequence_logs').set(closed).where('id', '=', id).execute();
      tx.afterCommit(() => this.#appended.notify(id));
    }, joined);
  }

  /** Returns the last number of the source whose output the log has; 0 for a log without output. */
  async sourceSeq(id: string): Promise<number> {
    return (await this.#find(id))?.source_seq ?? 0;
  }

  /** Returns all entries of a type, which should be few. */
  async listOfType(id: string, type: string): Promise<LogEntry[]> {
    const query = this.#deps.db.selectFrom('sequence_log_entries').selectAll().where('log_id', '=', id);
    return (await query.where('type', '=', type).orderBy('seq').execute()).map(toEntry);
  }

  /** Returns the entries that follow `afterSeq`: at most `limit`, and a bounded number of bytes. */
  async read(id: string, afterSeq: number, limit: number): Promise<LogPage> {
    return this.#read(id, afterSeq, limit, (await this.#find(id))?.last_seq ?? 0);
  }

  /**
   * Yields the entries that follow `afterSeq`, and each further one after its commit, until the log ends or `signal`
   * aborts.
   */
  async *follow(id: string, afterSeq: number, signal: AbortSignal): AsyncGenerator<LogEntry, void> {
    for (let next = afterSeq; ; ) {
      // A new watch for each read: waits for one shared promise would accumulate while no entry is appended.
      using watch = this.#appended.watch(id);
      const appended = watch.next();
      // Read before the entries, because no entry follows the end of a log.
      const log = await this.#find(id);
      const { data, nextSeq, hasMore } = await this.#read(id, next, READ_AT_ONCE, log?.last_seq ?? 0);
      signal.throwIfAborted();
      yield* data;
      next = nextSeq;
      if (hasMore) continue;
      if (!log || log.closed_at !== null) return;
      await orAbort(appended, signal);
    }
  }

  /** Deletes the logs that ended before the time `before`, in batches. Returns their number. */
  async forget(before: number): Promise<number> {
    const { db } = this.#deps;
    for (let forgotten = 0; ; forgotten += 1) {
      const ended = db.selectFrom('sequence_logs').select('id').where('closed_at', '<', before).limit(1);
      const log = await ended.executeTakeFirst();
      if (!log) return forgotten;
      await this.#delete(log.id);
    }
  }

  async #delete(id: string): Promise<void> {
    const { db } = this.#deps;
    const some = db.selectFrom('sequence_log_entries').select('seq').where('log_id', '=', id).limit(FORGOTTEN_AT_ONCE);
    const entries = db.deleteFrom('sequence_log_entries').where('log_id', '=', id).where('seq', 'in', some);
    while ((await entries.executeTakeFirst()).numDeletedRows > 0n) await setImmediate();
    await db.deleteFrom('sequence_logs').where('id', '=', id).execute();
  }

  /** Reserves the numbers of entries. The upsert locks the log until the commit, so numbers become visible in order. */
  async #number(
    { db }: Transaction,
    id: string,
    { count, output, source }: { count: number; output: number; source: SourceRange | undefined },
  ) {
    const row = { id, last_seq: count, source_seq: source?.upTo ?? 0, output_bytes: output, dropped_bytes: 0 };
    return db
      .insertInto('sequence_logs')
      .values(row)
      .onConflict((conflict) =>
        conflict
          .column('id')
          .doUpdateSet((log) => ({
            last_seq: log('sequence_logs.last_seq', '+', count),
            output_bytes: log('sequence_logs.output_bytes', '+', output),
            ...(source && { source_seq: source.upTo }),
          }))
          .where('sequence_logs.source_seq', source ? '=' : '>=', source?.after ?? 0)
          .where('sequence_logs.closed_at', 'is', null),
      )
      .returningAll()
      .executeTakeFirst();
  }

  async #find(id: string) {
    return this.#deps.db.selectFrom('sequence_logs').selectAll().where('id', '=', id).executeTakeFirst();
  }

  async #read(id: string, afterSeq: number, limit: number, lastSeq: number): Promise<LogPage> {
    const data: LogEntry[] = [];
    let nextSeq = afterSeq;
    let left = PAGE_BYTES;
    while (data.length < limit && left > 0 && nextSeq < lastSeq) {
      const rows = await this.#rows(id, nextSeq, Math.min(READ_AT_ONCE, limit - data.length), left);
      for (const row of rows) {
        left -= Buffer.byteLength(row.data);
        data.push(toEntry(row));
      }
      const before = nextSeq;
      nextSeq = data.at(-1)?.seq ?? nextSeq;
      if (nextSeq === before) break;
    }
    return { data, nextSeq, hasMore: data.length > 0 && nextSeq < lastSeq };
  }

  /** Returns at most `count` entries, up to the one with which they have `maxBytes`. The database reads no others. */
  async #rows(id: string, afterSeq: number, count: number, maxBytes: number) {
    const { db } = this.#deps;
    const following = db.selectFrom('sequence_log_entries').where('log_id', '=', id).where('seq', '>', afterSeq);
    const sizes = following
      .select(['seq', sql<number>`octet_length(data)`.as('size')])
      .orderBy('seq')
      .limit(count);
    const sums = db.selectFrom(sizes.as('sizes')).select('seq');
    const before = sums.select(sql<number>`sum(size) over (order by seq) - size`.as('before'));
    const last = db
      .selectFrom(before.as('sums'))
      .where('before', '<', maxBytes)
      .select(({ fn }) => fn.max('seq').as('seq'));
    return following.where('seq', '<=', last).selectAll().orderBy('seq').execute();
  }
}

/** An empty entry of output is stored as one byte: 0 marks those that are never dropped. */
function storedBytes({ outputBytes }: NewLogEntry): number {
  return outputBytes === undefined ? 0 : Math.max(1, outputBytes);
}

function toEntry({ seq, type, at, data }: Selectable<SequenceLogEntryTable>): LogEntry {
  return { seq, type, at, data: JSON.parse(data) };
}
