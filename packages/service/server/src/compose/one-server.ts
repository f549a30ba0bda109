import type { SandboxId } from '@cloche/contract';
import type { Logger } from 'pino';
import { queuedContentLocks } from '../features/artifacts/content-locks.ts';
import { Executions } from '../features/sandbox-records/executions.ts';
import { OwnLastUses } from '../features/sandboxes/lifecycle/last-uses.ts';
import type { Changes } from '../platform/base/changes.ts';
import { type Clock, systemClock } from '../platform/base/clock.ts';
import { ServerLease } from '../platform/cluster/server-lease.ts';
import { storedServerId } from '../platform/cluster/stored-server-id.ts';
import type { Database } from '../platform/db/database.ts';
import { LiveServers } from '../platform/db/live-servers.ts';
import { NO_NOTIFICATIONS } from '../platform/db/notifications.ts';
import { HeldClaims } from '../platform/idempotency/held-claims.ts';
import { JournaledRecords } from '../platform/idempotency/sqlite/journaled-records.ts';
import type {
  Coordination,
  CoordinationDeps,
  KeyCacheUse,
  RecordStore,
  RecordStoreDeps,
  SandboxActivity,
} from './coordination.ts';

export interface OneServerParts {
  readonly db: Database;
  readonly log: Logger;
  readonly clock: Clock;
  readonly servers: LiveServers;
  readonly leaseMs: number;
}

export async function openOneServer({ db, ids, log, serverDir, leaseMs }: CoordinationDeps): Promise<Coordination> {
  const servers = new LiveServers(db, storedServerId(serverDir, ids), systemClock);
  return oneServer({ db, log, clock: systemClock, servers, leaseMs });
}

/** The coordination of a server that is the only one of its database: nothing is shared, and nothing is taken over. */
export function oneServer(parts: OneServerParts): Coordination {
  const { db, log, clock, servers, leaseMs } = parts;
  const held = new HeldClaims();
  return {
    servers,
    clock,
    notifications: NO_NOTIFICATIONS,
    held,
    isFenced: () => false,
    stillOwns: () => true,
    watchOthers: () => ({ stop: async () => undefined }),
    endsSilentSandboxes: true,
    contentLocks: queuedContentLocks,
    openLease: (deps) => new ServerLease({ ...deps, db, held, serverId: servers.own, leaseMs, clock, log }),
    openRecords: (deps) => openJournal(deps, parts),
    keyCaches: () => ONLY_CACHE,
    sandboxActivity: (changes) => ownActivity(changes, clock),
    close: async () => undefined,
  };
}

/** Only this server changes keys, so its cache is never outdated. */
const ONLY_CACHE: KeyCacheUse = {
  usableUntil: Number.POSITIVE_INFINITY,
  outdate: async () => undefined,
  look: async () => undefined,
  stop: async () => undefined,
};

/** A journal replaces some transactions of the records. */
async function openJournal(
  { repository, journalFile }: RecordStoreDeps,
  { db, clock, log }: OneServerParts,
): Promise<RecordStore> {
  const records = await JournaledRecords.open(db, repository, journalFile, log);
  return {
    records,
    parts: undefined,
    learnQuota: (quota, isEnding) =>
      quota
        .learn(db, clock.now(), isEnding)
        .catch((error: unknown) =>
          log.error({ err: error }, 'the stored responses of the previous process do not count towards quotas'),
        ),
    close: () => records.close(),
  };
}

/** The memory of this server has all activity. */
function ownActivity(changes: Changes<SandboxId>, clock: Clock): SandboxActivity {
  const executions = new Executions(clock, changes);
  return {
    executions,
    activity: { of: () => executions },
    lastUses: (sandboxes) => new OwnLastUses(sandboxes, executions, clock),
    start: async () => undefined,
    tidy: async () => undefined,
    stop: async () => undefined,
  };
}
