import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Logger } from 'pino';
import type { IdSource } from '../base/id-source.ts';
import type { Database } from '../db/database.ts';
import type { SharedClock } from '../db/database-clock.ts';
import { SCHEMA_VERSION } from '../db/migrate.ts';
import type { IdempotencyRepository } from '../idempotency/idempotency-repository.ts';
import type { ResultFiles } from '../idempotency/result-files.ts';

const HEARTBEAT_MS = 5_000;
const LEASE_MS = 30_000;
const SWEEP_EVERY_BEATS = 12;

/**
 * Returns this server's id, which is stored in a file so that a restarted server recognizes the records it left behind.
 * `serverDir` belongs to this server alone.
 */
export function stableServerId(serverDir: string, ids: IdSource): string {
  const file = join(serverDir, 'server-id');
  mkdirSync(serverDir, { recursive: true, mode: 0o700 });
  try {
    writeFileSync(file, ids.next('srv_'), { flag: 'wx', mode: 0o600 });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
  }
  const id = readFileSync(file, 'utf8').trim();
  if (!id.startsWith('srv_')) throw new Error(`${file} does not hold a server id; remove it`);
  return id;
}

export interface ServerLeaseDeps {
  readonly db: Database;
  readonly records: IdempotencyRepository;
  readonly files: Pick<ResultFiles, 'removeExpired'>;
  readonly serverId: string;
  readonly clock: SharedClock;
  readonly log: Logger;
}

/**
 * Renews this server's lease in the shared database, and fails the records that servers without a valid lease left in
 * progress.
 */
export class ServerLease {
  readonly #deps: ServerLeaseDeps;
  #timer: NodeJS.Timeout | undefined;
  #beats = 0;

  constructor(deps: ServerLeaseDeps) {
    this.#deps = deps;
  }

  /**
   * Starts the heartbeat. Call it before the first request: at that time, this server's records in progress are those
   * of its previous process.
   */
  async start(): Promise<void> {
    const { records, serverId, log } = this.#deps;
    const failed = await records.failAllOf(serverId);
    if (failed > 0) log.warn({ failed }, 'idempotency records of the last life failed');
    await this.beat();
    this.#timer = setInterval(() => {
      this.beat().catch((error: unknown) => log.error({ err: error }, 'heartbeat failed'));
    }, HEARTBEAT_MS);
    this.#timer.unref();
  }

  async beat(): Promise<void> {
    const { db, records, files, serverId, clock } = this.#deps;
    await clock.sync?.();
    const now = clock.now();
    const lease = { id: serverId, lease_until: now + LEASE_MS, schema_version: SCHEMA_VERSION };
    await db
      .insertInto('server_leases')
      .values(lease)
      .onConflict((conflict) => conflict.column('id').doUpdateSet({ ...lease }))
      .execute();
    await records.failAbandoned(now);
    if (this.#beats++ % SWEEP_EVERY_BEATS !== 0) return;
    await records.deleteExpired(now);
    await files.removeExpired(now);
  }

  stop(): void {
    clearInterval(this.#timer);
  }
}
