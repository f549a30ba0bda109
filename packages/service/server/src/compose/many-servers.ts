import type { SandboxId } from '@cloche/contract';
import type { Logger } from 'pino';
import { sharedContentLocks } from '../features/artifacts/content-locks.ts';
import { ActivityRows } from '../features/sandbox-records/activity-rows.ts';
import { Executions } from '../features/sandbox-records/executions.ts';
import { SharedLastUses } from '../features/sandboxes/lifecycle/last-uses.ts';
import type { Changes } from '../platform/base/changes.ts';
import { Fence, type LeaseFence } from '../platform/base/fence.ts';
import type { IdSource } from '../platform/base/id-source.ts';
import { Loop } from '../platform/base/loop.ts';
import { ServerLease } from '../platform/cluster/server-lease.ts';
import type { Database } from '../platform/db/database.ts';
import { openDatabaseClock, type SharedClock } from '../platform/db/database-clock.ts';
import { LiveServers } from '../platform/db/live-servers.ts';
import { type Notifications, openNotifications } from '../platform/db/notifications.ts';
import { openOwnConnection } from '../platform/db/postgres-database.ts';
import { HeldClaims } from '../platform/idempotency/held-claims.ts';
import { ReplayParts } from '../platform/idempotency/replay-parts.ts';
import { ReplayRecount } from '../platform/idempotency/replay-recount.ts';
import { KeyCaches } from '../platform/keys/key-caches.ts';
import type { Coordination, CoordinationDeps, RecordStore, RecordStoreDeps, SandboxActivity } from './coordination.ts';

/** Longest time for one renewal of the lease. After it, the renewal is repeated on another connection. */
const RENEWAL_MS = 3_000;

export interface ManyServersParts {
  readonly db: Database;
  readonly ids: IdSource;
  readonly log: Logger;
  readonly clock: SharedClock;
  readonly servers: LiveServers;
  readonly notifications: Notifications;
  readonly held: HeldClaims;
  readonly fence: LeaseFence;
  readonly leaseMs: number;
}

/** The id is random, because two servers may use the same folder. */
export async function openManyServers({ db, ids, log, leaseMs }: CoordinationDeps): Promise<Coordination> {
  const clock = await openDatabaseClock(db);
  const servers = new LiveServers(db, ids.next('srv_'), clock);
  const fence = new Fence(() => cutOffWork(), undefined, leaseMs);
  const held = new HeldClaims(() => fence.look());
  const cutOffWork = () => {
    log.error('the lease in the database was not renewed: the work on requests is ended');
    held.abandonAll();
  };
  const notifications = openNotifications(db);
  return manyServers({ db, ids, log, clock, servers, notifications, held, fence, leaseMs });
}

/** The coordination of a server that shares its database: the database decides what is whose, and who is alive. */
export function manyServers(parts: ManyServersParts): Coordination {
  const { db, ids, log, clock, servers, notifications, held, fence, leaseMs } = parts;
  const isFenced = () => fence.look();
  const opened = new AsyncDisposableStack();
  opened.defer(() => notifications.close());
  return {
    servers,
    clock,
    notifications,
    held,
    isFenced,
    stillOwns: (takenAt, withinMs) => !isFenced() && clock.now() - takenAt < withinMs,
    watchOthers: (name, look, everyMs) => new Loop(name, () => look().then(() => everyMs), everyMs, log),
    endsSilentSandboxes: false,
    contentLocks: sharedContentLocks,
    openLease(deps) {
      const own = openOwnConnection(db, RENEWAL_MS);
      opened.defer(() => own.close());
      const serverId = servers.own;
      return new ServerLease({ ...deps, db, leaseDb: own.db, held, serverId, leaseMs, clock, log, fence });
    },
    openRecords: async (deps) => sharedRecords(deps, parts),
    keyCaches: (onOutdated) => new KeyCaches({ db, clock, notifications, processId: ids.next('srv_') }, onOutdated),
    sandboxActivity: (changes) => sharedActivity(changes, parts),
    close: () => opened.disposeAsync(),
  };
}

/** The database decides every claim, because servers must see each other's claims at once. */
function sharedRecords({ repository }: RecordStoreDeps, deps: ManyServersParts): RecordStore {
  let recount: ReplayRecount | undefined;
  return {
    records: repository,
    parts: new ReplayParts(deps.db),
    async learnQuota(quota) {
      recount = new ReplayRecount({ ...deps, quota });
      recount.start();
    },
    close: async () => recount?.stop(),
  };
}

/** Each server writes the activity of its sandboxes to the database. */
function sharedActivity(changes: Changes<SandboxId>, deps: ManyServersParts): SandboxActivity {
  const executions: Executions = new Executions(deps.clock, changes, (id) => activity.note(id));
  const activity = new ActivityRows({ ...deps, executions });
  return {
    executions,
    activity,
    lastUses: () => new SharedLastUses(activity),
    start: () => activity.start(),
    tidy: () => activity.tidy(),
    stop: () => activity.stop(),
  };
}
