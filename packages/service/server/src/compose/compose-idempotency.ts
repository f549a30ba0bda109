import { join } from 'node:path';
import type { IdSource } from '../platform/base/id-source.ts';
import type { ServerLease } from '../platform/cluster/server-lease.ts';
import type { Database } from '../platform/db/database.ts';
import { Idempotency } from '../platform/idempotency/idempotency.ts';
import { IdempotencyRepository } from '../platform/idempotency/idempotency-repository.ts';
import { ReplayQuota } from '../platform/idempotency/replay-quota.ts';
import { ResultFiles } from '../platform/idempotency/result-files.ts';
import type { Coordination } from './coordination.ts';

export interface IdempotencyDeps
  extends Pick<Coordination, 'servers' | 'clock' | 'held' | 'openLease' | 'openRecords'> {
  readonly db: Database;
  readonly ids: IdSource;
  readonly version: string;
  /** Folder that only this server uses. */
  readonly serverDir: string;
  readonly replayMaxBytes: number;
}

/** The idempotency of requests, and the lease without which this server's claims end. */
export interface ComposedIdempotency {
  readonly idempotency: Idempotency;
  readonly lease: ServerLease;
  /** Counts the stored responses of earlier processes, and from then on those of other servers. Logs a failure. */
  learnQuota(isEnding: () => boolean): Promise<void>;
  /** Call it before the database is closed. */
  close(): Promise<void>;
}

export async function composeIdempotency(deps: IdempotencyDeps): Promise<ComposedIdempotency> {
  const { db, clock, ids, servers, held, version, serverDir } = deps;
  const repository = new IdempotencyRepository(db);
  const store = await deps.openRecords({ repository, journalFile: join(serverDir, 'idempotency-journal') });
  const files = new ResultFiles(join(serverDir, 'results'), clock, ids, store.parts);
  const quota = new ReplayQuota(deps.replayMaxBytes);
  return {
    idempotency: new Idempotency(store.records, servers.own, clock, ids, { files, quota }, held),
    lease: deps.openLease({ records: repository, files, version }),
    learnQuota: (isEnding) => store.learnQuota(quota, isEnding),
    close: () => store.close(),
  };
}
