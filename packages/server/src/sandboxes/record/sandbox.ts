/** What a sandbox is and what may become of it. The record is the promise; its instance is the means. */
import type {
  DestroyedReason,
  Metadata,
  NetworkPolicy,
  OrgId,
  ProjectId,
  Resources,
  Sandbox,
  SandboxId,
  SandboxStatus,
  TemplateId,
  TemplateVersionId,
} from '@cloche/contract';
import type { Instance, LaunchSpec } from '@cloche/protocol';
import { timestamp } from '../../base/clock.ts';

/** The statuses that are written down; `running` and `idle` are `ready` seen with its live activity. */
export type RecordStatus = Exclude<SandboxStatus, 'running' | 'idle'>;
export type ResolvedResources = Required<Resources>;

/** Times are milliseconds since the epoch. */
export interface SandboxRecord {
  readonly id: SandboxId;
  readonly orgId: OrgId;
  readonly projectId: ProjectId;
  readonly status: RecordStatus;
  /** Counts incarnations from 1: what names another one is stale. */
  readonly generation: number;
  readonly templateId: TemplateId;
  readonly templateSlug: string;
  readonly templateVersion: string;
  readonly templateVersionId: TemplateVersionId;
  readonly ttlMs: number;
  readonly idleTimeoutMs: number | undefined;
  readonly expiresAt: number;
  readonly metadata: Metadata;
  readonly env: Readonly<Record<string, string>>;
  readonly networkPolicy: NetworkPolicy;
  readonly resources: ResolvedResources;
  /** Whether any execution has started in it. */
  readonly used: boolean;
  /** Behind the truth by a few seconds at most. */
  readonly lastActiveAt: number | undefined;
  /** Set from `starting` on. */
  readonly instance: Instance | undefined;
  readonly createdAt: number;
  readonly destroyedAt: number | undefined;
  readonly destroyedReason: DestroyedReason | undefined;
  readonly failureReason: string | undefined;
  /** The reason that the teardown under way will record. */
  readonly endingReason: DestroyedReason | undefined;
  readonly idempotencyRecordId: string | undefined;
}

/**
 * Every way a status changes. Each change is a compare-and-set that names id, generation and the status it was decided
 * on, so of two that race one wins and the other looks again.
 */
export const TRANSITIONS = {
  /** Its instance runs; the agent need not answer yet. */
  launch: { from: ['creating'], to: 'starting' },
  /** The agent answers and every restriction is in force; of an instance launched ahead, as soon as it is claimed. */
  open: { from: ['creating', 'starting'], to: 'ready' },
  /** The server that launched it died: the next generation begins. */
  relaunch: { from: ['creating', 'starting'], to: 'creating' },
  fail: { from: ['creating', 'starting', 'ready'], to: 'failed' },
  /** The intent to destroy it, recorded before anything is torn down. */
  end: { from: ['creating', 'starting', 'ready', 'failed'], to: 'expiring' },
  /** Nothing of its instance is left. */
  destroy: { from: ['expiring'], to: 'destroyed' },
} as const satisfies Record<string, { from: readonly RecordStatus[]; to: RecordStatus }>;
export type TransitionName = keyof typeof TRANSITIONS;

export function allows(transition: TransitionName, from: RecordStatus): boolean {
  return (TRANSITIONS[transition].from as readonly RecordStatus[]).includes(from);
}

/** Accepts work now or will soon. */
export const LIVE_STATUSES = ['creating', 'starting', 'ready'] as const satisfies readonly RecordStatus[];
/** Holds, or may hold, an instance. */
export const OCCUPYING_STATUSES = [...LIVE_STATUSES, 'expiring'] as const satisfies readonly RecordStatus[];
export const HISTORICAL_STATUSES = ['destroyed', 'failed'] as const satisfies readonly RecordStatus[];

export function isLive(record: SandboxRecord): boolean {
  return (LIVE_STATUSES as readonly RecordStatus[]).includes(record.status);
}

/** Still on its way to `ready`. */
export function isPending(record: SandboxRecord): boolean {
  return record.status === 'creating' || record.status === 'starting';
}

/** What is known of a sandbox's executions without asking the database. */
export interface Activity {
  isRunning(sandboxId: SandboxId): boolean;
  wasUsed(sandboxId: SandboxId): boolean;
}

export function statusOf(record: SandboxRecord, activity: Activity): SandboxStatus {
  if (record.status !== 'ready') return record.status;
  if (activity.isRunning(record.id)) return 'running';
  return record.used || activity.wasUsed(record.id) ? 'idle' : 'ready';
}

const AFTER_READY = ['running', 'idle', 'expiring', 'destroyed', 'failed'] as const;
/** What each status can still become; a wait for anything else is over. */
const REACHABLE: Record<SandboxStatus, readonly SandboxStatus[]> = {
  creating: ['starting', 'ready', ...AFTER_READY],
  starting: ['ready', ...AFTER_READY],
  ready: AFTER_READY,
  running: AFTER_READY,
  idle: AFTER_READY,
  expiring: ['destroyed'],
  failed: ['expiring', 'destroyed'],
  destroyed: [],
};

/** Whether a wait for `wanted` is over: reached, or out of reach. A used sandbox counts as ready. */
export function isSettled(status: SandboxStatus, wanted: SandboxStatus): boolean {
  if (status === wanted) return true;
  if (wanted === 'ready' && (status === 'running' || status === 'idle')) return true;
  return !REACHABLE[status].includes(wanted);
}

export function toLaunchSpec(record: SandboxRecord): LaunchSpec {
  const { cpu, memoryMb, diskMb, pids } = record.resources;
  return {
    source: { kind: 'template', templateVersionId: record.templateVersionId },
    resources: { cpu, memoryBytes: memoryMb * 2 ** 20, diskBytes: diskMb * 2 ** 20, pids },
    network: record.networkPolicy,
  };
}

/** The sandbox as clients see it: nothing of its instance, environment or generation. */
export function toSandbox(record: SandboxRecord, activity: Activity): Sandbox {
  return {
    id: record.id,
    orgId: record.orgId,
    projectId: record.projectId,
    status: statusOf(record, activity),
    templateId: record.templateId,
    templateSlug: record.templateSlug,
    templateVersion: record.templateVersion,
    templateVersionId: record.templateVersionId,
    ttlMs: record.ttlMs,
    ...(record.idleTimeoutMs === undefined ? {} : { idleTimeoutMs: record.idleTimeoutMs }),
    expiresAt: timestamp(record.expiresAt),
    metadata: record.metadata,
    networkPolicy: record.networkPolicy,
    resources: record.resources,
    createdAt: timestamp(record.createdAt),
    ...(record.destroyedAt === undefined ? {} : { destroyedAt: timestamp(record.destroyedAt) }),
    ...(record.destroyedReason === undefined ? {} : { destroyedReason: record.destroyedReason }),
    ...(record.failureReason === undefined ? {} : { failureReason: record.failureReason }),
  };
}
