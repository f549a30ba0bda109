import type {
  LostReason,
  MemoryMode,
  Metadata,
  OrgId,
  PauseCause,
  ProjectId,
  SandboxId,
  SandboxPause,
  WakeCause,
} from '@cloche/contract';
import type { Instance, InstanceUse } from '@cloche/runtime';
import type { Audited } from '../../platform/call/call.ts';
import type { ListPart, Selection } from '../../platform/db/list-part.ts';
import type { Transaction } from '../../platform/db/transactions.ts';
import type { Fact, RecordStatus } from '../sandbox-status/status-facts.ts';
import type { SandboxRecord, TransitionName } from './sandbox.ts';
import type { MoveName } from './sandbox-pauses.ts';

/** Fields that a transition may write besides the status. */
export interface TransitionChange {
  readonly instance?: SandboxRecord['instance'];
  readonly failureReason?: string;
  readonly failureKind?: SandboxRecord['failureKind'];
  readonly endingReason?: SandboxRecord['endingReason'];
  readonly destroyedReason?: SandboxRecord['destroyedReason'];
  readonly destroyedAt?: number;
  readonly lastActiveAt?: number;
  readonly readyAt?: number;
  /** Set by `relaunch` only: the current generation plus one. */
  readonly generation?: number;
  /** Set by `relaunch` only: the server that launches the sandbox from now on. */
  readonly launchOwner?: string;
  /** Usage of the instance up to its end. Not a field: it is counted in the transaction of the transition. */
  readonly use?: InstanceUse | undefined;
}

/** Fields that a move into or out of a pause may write besides the state. */
export interface MoveChange {
  /** The server that makes the next move. */
  /** The server that makes the move; null for one that was given up and is not undone yet. */
  readonly owner?: string | null;
  readonly token?: string;
  /** Null removes it, when a pause was given up. */
  readonly pausedBy?: PauseCause | null;
  readonly pausedAt?: number;
  /** End of the retention of the pause. */
  readonly expiresAt?: number;
  /** When that end is announced; null for never. */
  readonly retentionNoticeAt?: number | null;
  readonly resumed?: {
    readonly at: number;
    readonly by: WakeCause;
    readonly ttlMs: number;
    /** Why the memory is lost. */
    readonly lostReason?: LostReason | undefined;
  };
  /** Null removes it, as of the next field, when a pause was given up. */
  readonly pausedMemory?: MemoryMode | null;
  readonly lostReason?: LostReason | null;
  /** Null if the disk is not kept any more. */
  readonly diskGeneration?: number | null | undefined;
  /** The generation that is launched from now on; it has no instance yet. */
  readonly generation?: number;
  readonly instance?: Instance;
  /** Not a field: what the instance has used up to a pause, counted in the transaction of the move. */
  readonly use?: InstanceUse | undefined;
  /** Not a field: what else changes in the transaction. */
  readonly alongside?: (tx: Transaction) => Promise<void>;
  /**
   * Not a field: why the sandbox is paused by itself. The move has no effect if its `expiresAt` is another one, or, with
   * `idleAt`, if a server has used it since it was found to be idle at that time.
   */
  readonly due?: { readonly idleAt?: number };
}

/** Fields that a client sets anew; others stay. */
export interface SandboxUpdate {
  /** Null removes the name. */
  readonly name?: string | null | undefined;
  readonly metadata?: Metadata | undefined;
  readonly pause?: SandboxPause | undefined;
}

/** Result of an insert: the new sandbox, or the reason why none was inserted. */
export type InsertResult =
  | { readonly status: 'inserted'; readonly record: SandboxRecord }
  /** A sandbox was already created with this idempotency record. */
  | { readonly status: 'exists'; readonly record: SandboxRecord }
  /** Another sandbox of the project, which has not ended, has the name. */
  | { readonly status: 'name_taken'; readonly record: SandboxRecord }
  | { readonly status: 'project_deleted' };

export interface SandboxFilter extends Selection {
  readonly orgId: OrgId;
  /** Undefined means every project of the organization. */
  readonly projectIds: readonly ProjectId[] | undefined;
  /** `unended` means every status of a sandbox that has not ended; undefined means every status. */
  readonly status: RecordStatus | 'unended' | undefined;
  /** Whether clients see the sandbox as paused; undefined means both. */
  readonly paused?: boolean | undefined;
  readonly name?: string | undefined;
}

/**
 * Stores sandbox records. Each transition and TTL change is a compare-and-set, and returns undefined if the record
 * changed. A change that has events is one transaction with them; it joins `tx` if that is given.
 */
export interface SandboxRepository {
  /**
   * Checks that the project is not deleted, and inserts with the audit event, in one atomic step. The caller checks
   * limits in `tx`.
   */
  insert(call: Audited, record: SandboxRecord, tx?: Transaction): Promise<InsertResult>;
  /** As `insert`, unless limits apply in the project: then it inserts nothing and returns `limited`. */
  insertUnlimited(call: Audited, record: SandboxRecord): Promise<InsertResult | { readonly status: 'limited' }>;
  find(id: string): Promise<SandboxRecord | undefined>;
  findByIdempotencyRecord(recordId: string, tx?: Transaction): Promise<SandboxRecord | undefined>;
  /** Finds the sandbox that has a name in a project, if it has not ended. */
  findNamed(projectId: ProjectId, name: string, tx?: Transaction): Promise<SandboxRecord | undefined>;
  /** Returns a part of the matching sandboxes, newest first. */
  list(filter: SandboxFilter, part: ListPart): Promise<SandboxRecord[]>;
  /** Returns the sandboxes of all organizations of whose status the fact is true. */
  listThat(fact: Fact): Promise<SandboxRecord[]>;
  /**
   * Moves a sandbox into or out of a pause. Counts its usage up to now in the same transaction if the move changes what
   * is metered.
   *
   * @param tx a transaction to join
   */
  move(
    current: SandboxRecord,
    move: MoveName,
    change?: MoveChange,
    call?: Audited,
    tx?: Transaction,
  ): Promise<SandboxRecord | undefined>;
  /**
   * Applies a transition. `end` also compares `expiresAt`, so that an expiry cannot overtake a concurrent extension.
   */
  transition(
    current: SandboxRecord,
    transition: TransitionName,
    change?: TransitionChange,
    call?: Audited,
  ): Promise<SandboxRecord | undefined>;
  setTtl(
    call: Audited,
    current: SandboxRecord,
    ttl: { ttlMs: number; expiresAt: number },
  ): Promise<SandboxRecord | undefined>;
  /** Sets the given fields. Returns undefined if the sandbox does not accept work any more. */
  update(
    call: Audited,
    current: SandboxRecord,
    change: SandboxUpdate,
    tx?: Transaction,
  ): Promise<SandboxRecord | 'name_taken' | undefined>;
  /** Gives up the launches of a server, so that another server continues them. */
  releaseLaunches(serverId: string): Promise<void>;
  markUsed(id: SandboxId): Promise<void>;
  recordActivity(id: SandboxId, at: number): Promise<void>;
  /** Returns the live sandboxes whose `expiresAt` has passed. */
  listExpired(now: number): Promise<SandboxRecord[]>;
  /** Returns the earliest `expiresAt` after `now` of all live sandboxes. */
  nextExpiry(now: number): Promise<number | undefined>;
  /** Returns some of the sandboxes whose end of the retention is to be announced at `now`, the earliest first. */
  listRetentionEnding(now: number): Promise<SandboxRecord[]>;
  /** Returns those of the sandboxes that are paused, or on their way into or out of a pause. */
  listPausedOf(ids: readonly SandboxId[]): Promise<SandboxRecord[]>;
  /** Returns the sandbox that has been paused for the longest time with memory that is kept while there is room. */
  findLongestPaused(): Promise<SandboxRecord | undefined>;
  /** Returns the ready sandboxes that are destroyed or paused when nothing uses them. */
  listWithIdleTimeout(): Promise<SandboxRecord[]>;
}
