import type { OrgId, ProjectId, SandboxId } from '@cloche/contract';
import type { RecordStatus, SandboxRecord, TransitionName } from './sandbox.ts';

/** What a transition may write besides the status. */
export interface TransitionChange {
  readonly instance?: SandboxRecord['instance'];
  readonly failureReason?: string;
  readonly endingReason?: SandboxRecord['endingReason'];
  readonly destroyedReason?: SandboxRecord['destroyedReason'];
  readonly destroyedAt?: number;
  readonly lastActiveAt?: number;
  /** `relaunch` alone: one more than the current. */
  readonly generation?: number;
}

export type InsertResult =
  | { readonly status: 'inserted'; readonly record: SandboxRecord }
  /** Its idempotency record has made this one before. */
  | { readonly status: 'exists'; readonly record: SandboxRecord }
  | { readonly status: 'quota_exceeded'; readonly used: number };

export interface SandboxFilter {
  readonly orgId: OrgId;
  /** Undefined: every project of the organization. */
  readonly projectIds: readonly ProjectId[] | undefined;
  readonly statuses: readonly RecordStatus[];
}

/** The records of sandboxes. Every change of one is a compare-and-set; a lost one returns undefined. */
export interface SandboxRepository {
  /** Counts the organization's occupying sandboxes against `maxLive` and inserts, in one atomic step. */
  insert(record: SandboxRecord, maxLive: number | undefined): Promise<InsertResult>;
  find(id: string): Promise<SandboxRecord | undefined>;
  findByIdempotencyRecord(recordId: string): Promise<SandboxRecord | undefined>;
  /** Newest first. */
  list(filter: SandboxFilter): Promise<SandboxRecord[]>;
  /** Of every organization. */
  listByStatus(statuses: readonly RecordStatus[]): Promise<SandboxRecord[]>;
  /** `end` also holds to the `expiresAt` that was seen, so that an expiry never beats an extension it has not seen. */
  transition(
    current: SandboxRecord,
    transition: TransitionName,
    change?: TransitionChange,
  ): Promise<SandboxRecord | undefined>;
  setTtl(current: SandboxRecord, ttl: { ttlMs: number; expiresAt: number }): Promise<SandboxRecord | undefined>;
  markUsed(id: SandboxId): Promise<void>;
  recordActivity(id: SandboxId, at: number): Promise<void>;
  /** Live ones whose time is up. */
  listExpired(now: number): Promise<SandboxRecord[]>;
  /** When the next live one expires. */
  nextExpiry(): Promise<number | undefined>;
  /** Ready ones that end when nobody uses them. */
  listWithIdleTimeout(): Promise<SandboxRecord[]>;
}
