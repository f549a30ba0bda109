import type { SandboxId } from '@cloche/contract';
import type { Logger } from 'pino';
import type { ContentLocks } from '../features/artifacts/content-locks.ts';
import type { Executions } from '../features/sandbox-records/executions.ts';
import type { SandboxRepository } from '../features/sandbox-records/sandbox-repository.ts';
import type { SharedActivity } from '../features/sandbox-records/shared-activity.ts';
import type { LastUses } from '../features/sandboxes/lifecycle/last-uses.ts';
import type { Changes } from '../platform/base/changes.ts';
import type { IdSource } from '../platform/base/id-source.ts';
import type { WatchOthers } from '../platform/base/loop.ts';
import type { ServerLease, ServerLeaseDeps } from '../platform/cluster/server-lease.ts';
import type { Database } from '../platform/db/database.ts';
import type { SharedClock } from '../platform/db/database-clock.ts';
import type { LiveServers } from '../platform/db/live-servers.ts';
import type { Notifications } from '../platform/db/notifications.ts';
import type { Transactions } from '../platform/db/transactions.ts';
import type { HeldClaims } from '../platform/idempotency/held-claims.ts';
import type { IdempotencyRecords, IdempotencyRepository } from '../platform/idempotency/idempotency-repository.ts';
import type { ReplayParts } from '../platform/idempotency/replay-parts.ts';
import type { ReplayQuota } from '../platform/idempotency/replay-quota.ts';
import type { OtherKeyCaches } from '../platform/keys/authenticator.ts';

/**
 * Everything that depends on whether the database has one server or several. It is chosen once, and each part of the
 * server takes what it needs of it, so that no part asks how many servers there are.
 */
export interface Coordination {
  readonly servers: LiveServers;
  /** The clock that all servers share. */
  readonly clock: SharedClock;
  readonly notifications: Notifications;
  /** The claims of requests on which this server works. The loss of the lease ends that work. */
  readonly held: HeldClaims;
  /**
   * Whether this server has lost its lease. It then refuses work, ends no sandbox that other servers may be working
   * with, and has ended the requests that they may take over.
   */
  readonly isFenced: () => boolean;
  /** Returns whether no other server counts work as lost that this one took at `takenAt`, at most `withinMs` ago. */
  readonly stillOwns: (takenAt: number, withinMs: number) => boolean;
  readonly watchOthers: WatchOthers;
  /**
   * Whether a sandbox ends when its agent does not answer this server. A server that is cut off knows nothing about an
   * agent that another one may reach.
   */
  readonly endsSilentSandboxes: boolean;
  readonly contentLocks: (transactions: Transactions) => ContentLocks;
  readonly openLease: (deps: LeaseParts) => ServerLease;
  readonly openRecords: (deps: RecordStoreDeps) => Promise<RecordStore>;
  /** @param onOutdated clears the cache of this server */
  readonly keyCaches: (onOutdated: () => void) => KeyCacheUse;
  readonly sandboxActivity: (changes: Changes<SandboxId>) => SandboxActivity;
  /** Call it before the database is closed. */
  readonly close: () => Promise<void>;
}

export type LeaseParts = Pick<ServerLeaseDeps, 'records' | 'files' | 'version'>;

export interface RecordStoreDeps {
  readonly repository: IdempotencyRepository;
  /** Path of a journal. Only this server uses the file. */
  readonly journalFile: string;
}

/** Where the idempotency records are, and what is stored with them. */
export interface RecordStore {
  readonly records: IdempotencyRecords;
  /** Copies of large responses for servers on other hosts. */
  readonly parts: ReplayParts | undefined;
  /** Counts the stored responses of earlier processes, and from then on those of other servers. Logs a failure. */
  learnQuota(quota: ReplayQuota, isEnding: () => boolean): Promise<void>;
  /** Call it before the database is closed. */
  close(): Promise<void>;
}

/** How long this server may use its cache of keys. */
export interface KeyCacheUse extends OtherKeyCaches {
  /** Finds out which keys other servers have changed. Call it several times a second. */
  look(): Promise<void>;
  /** Stops using the cache. */
  stop(): Promise<void>;
}

/** The activity in sandboxes, whichever server it goes through. */
export interface SandboxActivity {
  /** The executions of this server. */
  readonly executions: Executions;
  readonly activity: SharedActivity;
  lastUses(sandboxes: SandboxRepository): LastUses;
  start(): Promise<void>;
  /** Removes what ended sandboxes and dead servers have left. */
  tidy(): Promise<void>;
  /** Call it when nothing runs through this server any more. */
  stop(): Promise<void>;
}

export interface CoordinationDeps {
  readonly db: Database;
  readonly ids: IdSource;
  readonly log: Logger;
  /** Folder that only this server uses. */
  readonly serverDir: string;
  /** Time until other servers count this one as dead, from its last renewal of the lease. */
  readonly leaseMs: number;
}
