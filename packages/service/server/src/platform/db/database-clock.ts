import { sql } from 'kysely';
import type { Clock } from '../base/clock.ts';
import type { Database } from './database.ts';

/**
 * Error of the clock at which a starting server stops comparing. If the database answers more slowly, it starts with a
 * larger error.
 */
const EXACT_MS = 100;
/** Most comparisons at the start of a server. */
const FIRST_COMPARISONS = 4;
/**
 * Largest drift between two clocks: programs that adjust a clock, such as chrony, slow or speed up each one by up to
 * 1/2000.
 */
const DRIFT = 1 / 1000;
/** Resolution of the two clocks: each of them counts whole milliseconds. */
const RESOLUTION_MS = 1;

export interface SharedClock extends Clock {
  /** Compares the clock with that of the database. Call it at each heartbeat. */
  sync?(): Promise<void>;
}

/** Returns the clock of the database, which its servers share, because the clocks of their hosts differ. */
export async function openDatabaseClock(db: Database, elapsed?: () => number): Promise<SharedClock> {
  const clock = new DatabaseClock(db, elapsed);
  for (let left = FIRST_COMPARISONS; left > 0 && clock.errorMs > EXACT_MS; left -= 1) await clock.sync();
  return clock;
}

/** Bounds of the difference between the clock of the database and that of this process. */
interface Offset {
  readonly low: number;
  readonly high: number;
  /** Time of the comparison, by the clock of this process. */
  readonly at: number;
}

/** The clock of the database. Between two comparisons it advances with the clock of this process. */
export class DatabaseClock implements SharedClock {
  readonly #db: Database;
  readonly #elapsed: () => number;
  #offset: Offset | undefined;

  /** @param elapsed milliseconds since some moment; a change of the host's clock does not affect them */
  constructor(db: Database, elapsed = () => performance.now()) {
    this.#db = db;
    this.#elapsed = elapsed;
  }

  /** Largest possible error of the clock after the last comparison, in milliseconds. */
  get errorMs(): number {
    return this.#offset ? (this.#offset.high - this.#offset.low) / 2 : Number.POSITIVE_INFINITY;
  }

  now(): number {
    if (this.#offset === undefined) throw new Error('the clock was never compared with that of the database');
    return Math.round(this.#elapsed() + (this.#offset.low + this.#offset.high) / 2);
  }

  /**
   * Compares the clocks. The result narrows the earlier bounds, widened by the drift since; so a slow comparison does
   * not undo a fast one.
   */
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
    // The bounds do not overlap if one of the clocks was set meanwhile. The new comparison then counts alone.
    this.#offset = both.low <= both.high ? both : seen;
  }
}
