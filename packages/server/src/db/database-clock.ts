import { sql } from 'kysely';
import { type Clock, systemClock } from '../base/clock.ts';
import type { Database } from './database.ts';
import { kindOf } from './database-kind.ts';

/** Longest query whose time counts: it is wrong by up to half of how long the query takes. */
const LONGEST_SYNC_MS = 1_000;

export interface SharedClock extends Clock {
  /** Compares the clock with that of the database. Call it at each heartbeat. */
  sync?(): Promise<void>;
}

/**
 * Returns the clock of the database's servers. The server of a SQLite file is alone and uses the host's; servers of a
 * PostgreSQL database use the clock of the database, because their hosts' clocks differ.
 */
export async function openClock(db: Database): Promise<SharedClock> {
  if (kindOf(db) === 'sqlite') return systemClock;
  const clock = new DatabaseClock(db);
  await clock.sync();
  return clock;
}

/** The clock of the database, counted on by the clock of this process between two comparisons. */
export class DatabaseClock implements SharedClock {
  readonly #db: Database;
  readonly #elapsed: () => number;
  #offset: number | undefined;

  /** @param elapsed milliseconds since some moment, unaffected when the host's clock is set */
  constructor(db: Database, elapsed = () => performance.now()) {
    this.#db = db;
    this.#elapsed = elapsed;
  }

  now(): number {
    if (this.#offset === undefined) throw new Error('the clock was never compared with that of the database');
    return Math.round(this.#elapsed() + this.#offset);
  }

  async sync(): Promise<void> {
    const before = this.#elapsed();
    const query = sql<{ at: number }>`select (extract(epoch from clock_timestamp()) * 1000)::float8 as at`;
    const [row] = (await query.execute(this.#db)).rows;
    const after = this.#elapsed();
    if (!row || (this.#offset !== undefined && after - before > LONGEST_SYNC_MS)) return;
    this.#offset = row.at - (before + after) / 2;
  }
}
