import { sql } from 'kysely';
import { type Clock, systemClock } from '../base/clock.ts';
import type { Database } from './database.ts';
import { kindOf } from './database-kind.ts';

/** Error with which a server may start, unless the database answers no faster. */
const EXACT_MS = 100;
/** Most comparisons of a starting server. */
const FIRST_COMPARISONS = 4;
/** By how much two clocks may drift apart: programs that set the time, such as chrony, slow or speed up each by 1/2000. */
const DRIFT = 1 / 1000;
/** Resolution of the two clocks: each of them counts whole milliseconds. */
const RESOLUTION_MS = 1;

export interface SharedClock extends Clock {
  /** Compares the clock with that of the database. Call it at each heartbeat. */
  sync?(): Promise<void>;
}

/**
 * Returns the clock of the database's servers. The server of a SQLite file is alone and uses the host's; servers of a
 * PostgreSQL database use the clock of the database, because their hosts' clocks differ.
 */
export async function openClock(db: Database, elapsed?: () => number): Promise<SharedClock> {
  if (kindOf(db) === 'sqlite') return systemClock;
  const clock = new DatabaseClock(db, elapsed);
  for (let left = FIRST_COMPARISONS; left > 0 && clock.errorMs > EXACT_MS; left -= 1) await clock.sync();
  return clock;
}

/** Bounds of what the clock of the database is ahead of that of this process. */
interface Offset {
  readonly low: number;
  readonly high: number;
  /** Time of the comparison, by the clock of this process. */
  readonly at: number;
}

/** The clock of the database, counted on by the clock of this process between two comparisons. */
export class DatabaseClock implements SharedClock {
  readonly #db: Database;
  readonly #elapsed: () => number;
  #offset: Offset | undefined;

  /** @param elapsed milliseconds since some moment, unaffected when the host's clock is set */
  constructor(db: Database, elapsed = () => performance.now()) {
    this.#db = db;
    this.#elapsed = elapsed;
  }

  /** Most milliseconds by which the last comparison left the clock wrong. */
  get errorMs(): number {
    return this.#offset ? (this.#offset.high - this.#offset.low) / 2 : Number.POSITIVE_INFINITY;
  }

  now(): number {
    if (this.#offset === undefined) throw new Error('the clock was never compared with that of the database');
    return Math.round(this.#elapsed() + (this.#offset.low + this.#offset.high) / 2);
  }

  /** A slow comparison only bounds the time: it changes nothing that a faster one before it knows better. */
  async sync(): Promise<void> {
    const before = this.#elapsed();
    const query = sql<{ at: number }>`select (extract(epoch from clock_timestamp()) * 1000)::float8 as at`;
    const [row] = (await query.execute(this.#db)).rows;
    const after = this.#elapsed();
    if (!row) return;
    const seen = { low: row.at - after, high: row.at - before, at: after };
    const known = this.#offset ?? seen;
    const drift = RESOLUTION_MS + (after - known.at) * DRIFT;
    const both = {
      low: Math.max(known.low - drift, seen.low),
      high: Math.min(known.high + drift, seen.high),
      at: after,
    };
    // They contradict each other if a clock was set.
    this.#offset = both.low <= both.high ? both : seen;
  }
}
