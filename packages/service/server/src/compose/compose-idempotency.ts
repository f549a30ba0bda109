import { join } from 'node:path';
import type { Logger } from 'pino';
import type { Clock } from '../platform/base/clock.ts';
import { Fence } from '../platform/base/fence.ts';
import type { IdSource } from '../platform/base/id-source.ts';
import { ServerLease } from '../platform/cluster/server-lease.ts';
import type { Database } from '../platform/db/database.ts';
import { kindOf } from '../platform/db/database-kind.ts';
import { openOwnConnection } from '../platform/db/postgres-database.ts';
import { HeldClaims } from '../platform/idempotency/held-claims.ts';
import { Idempotency } from '../platform/idempotency/idempotency.ts';
import { IdempotencyRepository } from '../platform/idempotency/idempotency-repository.ts';
import { ReplayParts } from '../platform/idempotency/replay-parts.ts';
import { ReplayQuota } from '../platform/idempotency/replay-quota.ts';
import { ReplayRecount } from '../platform/idempotency/replay-recount.ts';
import { ResultFiles } from '../platform/idempotency/result-files.ts';
import { openRecordStore } from './open-record-store.ts';

/** Longest time for one renewal of the lease. After it, the renewal is repeated on another connection. */
const RENEWAL_MS = 3_000;

export interface IdempotencyDeps {
  readonly db: Database;
  readonly clock: Clock;
  readonly ids: IdSource;
  readonly log: Logger;
  readonly serverId: string;
  /** Time until other servers count this one as dead, from its last renewal of the lease. */
  readonly leaseMs: number;
  readonly version: string;
  /** Folder that only this server uses. */
  readonly serverDir: string;
  readonly replayMaxBytes: number;
}

/** The idempotency of requests, and the lease without which this server's claims end. */
export interface ComposedIdempotency {
  readonly idempotency: Idempotency;
  readonly lease: ServerLease;
  /**
   * Whether this server has lost its lease. It then refuses work, and has ended the requests that other servers may take
   * over.
   */
  isFenced(): boolean;
  /** Counts the stored responses of earlier processes, and from then on those of other servers. Logs a failure. */
  learnQuota(isEnding: () => boolean): Promise<void>;
  /** Call it before the database is closed. */
  close(): Promise<void>;
}

export async function composeIdempotency(deps: IdempotencyDeps): Promise<ComposedIdempotency> {
  const { db, clock, ids, log, serverId, serverDir } = deps;
  const repository = new IdempotencyRepository(db);
  const store = await openRecordStore({ ...deps, repository, journalFile: join(serverDir, 'idempotency-journal') });
  const parts = kindOf(db) === 'sqlite' ? undefined : new ReplayParts(db);
  const files = new ResultFiles(join(serverDir, 'results'), clock, ids, parts);
  const quota = new ReplayQuota(deps.replayMaxBytes);
  const recount = kindOf(db) === 'sqlite' ? undefined : new ReplayRecount({ ...deps, quota });
  const fence = kindOf(db) === 'sqlite' ? undefined : new Fence(() => cutOffWork(), undefined, deps.leaseMs);
  const own = openOwnConnection(db, RENEWAL_MS);
  const isFenced = () => fence?.look() ?? false;
  const held = new HeldClaims(isFenced);
  const cutOffWork = () => {
    log.error('the lease in the database was not renewed: the work on requests is ended');
    held.abandonAll();
  };
  return {
    idempotency: new Idempotency(store.records, serverId, clock, ids, { files, quota }, held),
    lease: new ServerLease({ ...deps, leaseDb: own.db, records: repository, held, files, fence }),
    isFenced,
    async learnQuota(isEnding) {
      if (recount) return recount.start();
      await quota
        .learn(db, clock.now(), isEnding)
        .catch((error: unknown) =>
          log.error({ err: error }, 'the stored responses of the previous process do not count towards quotas'),
        );
    },
    async close() {
      await recount?.stop();
      await own.close();
      await store.close();
    },
  };
}
