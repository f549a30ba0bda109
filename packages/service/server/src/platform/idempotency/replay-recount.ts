import { LIMITS, type OrgId } from '@cloche/contract';
import { sql } from 'kysely';
import type { Logger } from 'pino';
import type { Clock } from '../base/clock.ts';
import { Loop } from '../base/loop.ts';
import type { Database } from '../db/database.ts';
import { HOUR_MS, type ReplayQuota } from './replay-quota.ts';

const EVERY_MS = 5_000;
/**
 * Minimum ratio between the pause after a pass and the pass itself, so that the load on the database does not grow with
 * the number of records.
 */
const PAUSE_FACTOR = 20;
/** Number of hours whose counts change often: new records expire in the last one, or in the last two. */
const CHANGING_HOURS = 2;

export interface ReplayRecountDeps {
  readonly db: Database;
  readonly quota: ReplayQuota;
  readonly clock: Clock;
  readonly log: Logger;
}

/**
 * Counts the stored responses of all servers of the database, so that the quota of an organization applies to all
 * servers together. Between two counts, each server adds what it stores itself.
 */
export class ReplayRecount {
  readonly #deps: ReplayRecountDeps;
  #loop: Loop | undefined;
  /** The hour that was counted last, among the hours whose counts seldom change. */
  #counted: number | undefined;

  constructor(deps: ReplayRecountDeps) {
    this.#deps = deps;
  }

  start(): void {
    const pass = async () => {
      const begunAt = performance.now();
      await this.recount();
      return Math.max(EVERY_MS, (performance.now() - begunAt) * PAUSE_FACTOR);
    };
    this.#loop = new Loop('count responses for replay', pass, EVERY_MS, this.#deps.log);
  }

  async stop(): Promise<void> {
    await this.#loop?.stop();
  }

  /**
   * Counts all hours the first time. Later calls count the hours that change often, and one of the other hours in turn.
   */
  async recount(): Promise<void> {
    const now = this.#deps.clock.now();
    const first = Math.floor(now / HOUR_MS);
    const changing = Math.floor((now + LIMITS.idempotencyRetentionMs) / HOUR_MS) - CHANGING_HOURS + 1;
    const isFirst = this.#counted === undefined;
    const next = (this.#counted ?? 0) + 1;
    const settled = next < first || next >= changing ? first : next;
    for (let hour = isFirst ? first : settled; hour < changing; hour += 1) {
      await this.#count(hour);
      this.#counted = hour;
      if (!isFirst) break;
    }
    for (let hour = changing; hour < changing + CHANGING_HOURS; hour += 1) await this.#count(hour);
  }

  async #count(hour: number): Promise<void> {
    const { db, quota } = this.#deps;
    const rows = await db
      .selectFrom('idempotency_records')
      .select(['org_id', sql<number>`sum(stored_bytes)`.as('bytes')])
      .where('expires_at', '>=', hour * HOUR_MS)
      .where('expires_at', '<', (hour + 1) * HOUR_MS)
      .groupBy('org_id')
      .execute();
    // Sound: the column holds organization ids.
    quota.replace(hour, new Map(rows.map(({ org_id, bytes }) => [org_id as OrgId, bytes])));
  }
}
