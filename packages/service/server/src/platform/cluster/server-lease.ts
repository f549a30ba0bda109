import { hostname } from 'node:os';
import { sql } from 'kysely';
import type { Logger } from 'pino';
import { LEASE_MS, type LeaseFence, OPEN_FENCE } from '../base/fence.ts';
import type { Database } from '../db/database.ts';
import type { SharedClock } from '../db/database-clock.ts';
import { databaseTime } from '../db/database-time.ts';
import { SCHEMA_VERSION } from '../db/migrate.ts';
import type { HeldClaims } from '../idempotency/held-claims.ts';
import type { IdempotencyRepository } from '../idempotency/idempotency-repository.ts';
import type { ResultFiles } from '../idempotency/result-files.ts';

/** Number of renewals in the duration of a lease. */
const BEATS = 6;
const SWEEP_EVERY_BEATS = 12;
/** Time after which the row of a server that has ended is removed. */
const FORGOTTEN_MS = 86_400_000;

export interface ServerLeaseDeps {
  readonly db: Database;
  /** Connection for the renewals, which other work must not delay. Default: `db`. */
  readonly leaseDb?: Database | undefined;
  readonly records: IdempotencyRepository;
  readonly held: HeldClaims;
  readonly files: Pick<ResultFiles, 'removeExpired'>;
  readonly serverId: string;
  /** Time after the last renewal until other servers count this one as dead. Default: `LEASE_MS`. */
  readonly leaseMs?: number | undefined;
  /** Version of this server. */
  readonly version: string;
  readonly clock: SharedClock;
  readonly log: Logger;
  /** Notified of each renewal of the lease. */
  readonly fence?: LeaseFence | undefined;
}

/**
 * Renews this server's lease in the shared database. Marks idempotency records as failed that are in progress although
 * no server works on them.
 */
export class ServerLease {
  readonly #deps: ServerLeaseDeps;
  #timer: NodeJS.Timeout | undefined;
  #beats = 0;
  readonly #underWay = new Map<() => Promise<void>, Promise<void>>();

  constructor(deps: ServerLeaseDeps) {
    this.#deps = deps;
  }

  /**
   * Starts the heartbeat. Call it before the first request: until then, all records in progress that belong to this
   * server are those of its previous process.
   */
  async start(): Promise<void> {
    const { records, serverId, log } = this.#deps;
    const failed = await records.failAllOf(serverId);
    if (failed > 0) log.warn({ failed }, 'failed the idempotency records that the previous process left in progress');
    await this.beat();
    const renew = () => this.#renew();
    const tidy = () => this.#tidy();
    const beat = () => {
      // Started separately, because `#tidy` may wait for a connection of the pool and must not delay the renewal.
      for (const work of [renew, tidy]) this.#doOnce(work);
    };
    this.#timer = setInterval(beat, (this.#deps.leaseMs ?? LEASE_MS) / BEATS).unref();
  }

  async beat(): Promise<void> {
    await this.#renew();
    await this.#tidy();
  }

  /**
   * Deletes the lease, so that other servers need not wait until it expires. Call it when this server has ended its
   * work.
   */
  async release(): Promise<void> {
    const { db, serverId } = this.#deps;
    this.stop();
    await Promise.all(this.#underWay.values());
    await db.deleteFrom('server_leases').where('id', '=', serverId).execute();
  }

  stop(): void {
    clearInterval(this.#timer);
    this.#deps.fence?.stop();
  }

  /** Does nothing while the same work is under way. */
  #doOnce(work: () => Promise<void>): void {
    if (this.#underWay.has(work)) return;
    const done = work()
      .catch((error: unknown) => this.#deps.log.error({ err: error }, 'heartbeat failed'))
      .finally(() => this.#underWay.delete(work));
    this.#underWay.set(work, done);
  }

  async #renew(): Promise<void> {
    const { db, leaseDb = db, serverId, leaseMs = LEASE_MS, version, clock, fence = OPEN_FENCE } = this.#deps;
    const sentAt = fence.now();
    const lease = {
      id: serverId,
      lease_until: sql<number>`${databaseTime(db, clock.now())} + ${sql.lit(leaseMs)}`,
      schema_version: SCHEMA_VERSION,
      host: hostname(),
      version,
    };
    await leaseDb
      .insertInto('server_leases')
      .values(lease)
      .onConflict((conflict) => conflict.column('id').doUpdateSet({ ...lease }))
      .execute();
    fence.renewed(sentAt);
  }

  async #tidy(): Promise<void> {
    const { db, records, held, files, serverId, clock, log } = this.#deps;
    await clock.sync?.();
    const unheld = await records.failUnheld(serverId, held);
    if (unheld > 0) log.warn({ failed: unheld }, 'failed idempotency records that no request was working on');
    const now = clock.now();
    await records.failAbandoned(now);
    if (this.#beats++ % SWEEP_EVERY_BEATS !== 0) return;
    await db
      .deleteFrom('server_leases')
      .where('id', '!=', serverId)
      .where('lease_until', '<=', sql<number>`${databaseTime(db, now)} - ${sql.lit(FORGOTTEN_MS)}`)
      .execute();
    await records.deleteExpired(now);
    await files.removeExpired(now);
  }
}
