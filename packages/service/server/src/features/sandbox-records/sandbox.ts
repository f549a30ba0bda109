/** The sandbox record, its statuses and its allowed transitions. */
import {
  type DestroyedReason,
  type EventType,
  type LostReason,
  type MemoryMode,
  type Metadata,
  type NetworkPolicy,
  type OrgId,
  type PauseCause,
  type ProjectId,
  type Resources,
  SANDBOX_STATUS_FACTS,
  type Sandbox,
  type SandboxId,
  type SandboxPause,
  type SandboxStatus,
  type SecretId,
  type StartCommand,
  type TemplateId,
  type TemplateVersionId,
  type WakeCause,
} from '@cloche/contract';
import type { Instance, LaunchSpec } from '@cloche/runtime';
import { timestamp } from '../../platform/base/clock.ts';
import { factsOf, type PauseState, type RecordStatus } from '../sandbox-status/status-facts.ts';
import { pauseOf } from './sandbox-pauses.ts';

export type ResolvedResources = Required<Resources>;

/**
 * Why no host launched a sandbox: none had room, none had the template version any more, or the sandbox was not ready
 * in time.
 */
export type LaunchFailureKind = 'no_capacity' | 'no_version' | 'too_slow';

/** Times are milliseconds since the epoch. */
export interface SandboxRecord {
  readonly id: SandboxId;
  readonly orgId: OrgId;
  readonly projectId: ProjectId;
  readonly name: string | undefined;
  readonly status: RecordStatus;
  /** Number of the incarnation, from 1. A message or instance with another generation is stale. */
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
  /** Ids of secrets by placeholder, for a sandbox that has secrets. `env` has the placeholders. */
  readonly secrets: Readonly<Record<string, SecretId>> | undefined;
  readonly networkPolicy: NetworkPolicy;
  readonly resources: ResolvedResources;
  /** Whether any execution has started in the sandbox. */
  readonly used: boolean;
  /** Lags behind the actual activity by a few seconds at most. */
  readonly lastActiveAt: number | undefined;
  /** Set from `starting` on. */
  readonly instance: Instance | undefined;
  readonly createdAt: number;
  /** Undefined if the sandbox never became ready. */
  readonly readyAt: number | undefined;
  readonly destroyedAt: number | undefined;
  readonly destroyedReason: DestroyedReason | undefined;
  /** A text for people. */
  readonly failureReason: string | undefined;
  /** Set if the launch failed for a reason that may be over for another sandbox. */
  readonly failureKind: LaunchFailureKind | undefined;
  /** The reason that the teardown under way will record. */
  readonly endingReason: DestroyedReason | undefined;
  readonly idempotencyRecordId: string | undefined;
  /** Id of the server that launches the sandbox; undefined if that server has given up the launch. */
  readonly launchOwner: string | undefined;
  /** Decides nothing unless the status is `ready`; see `stateOf`. */
  readonly pauseState: PauseState | undefined;
  /** Incremented by each move into or out of a pause. */
  readonly pauseEpoch: number;
  /** Id of the server that pauses or wakes the sandbox. */
  readonly pauseOwner: string | undefined;
  /** Names the last pause for the agent. */
  readonly pauseToken: string | undefined;
  readonly pausedAt: number | undefined;
  readonly pausedBy: PauseCause | undefined;
  readonly resumedAt: number | undefined;
  readonly resumedBy: WakeCause | undefined;
  /** Whether the pause keeps the memory; the files alone are kept in states that have lost it. */
  readonly pausedMemory: MemoryMode;
  /** Why the memory is dropped, or was. */
  readonly lostReason: LostReason | undefined;
  /** Why the last wake had lost its memory; undefined if it had not. */
  readonly resumedLostReason: LostReason | undefined;
  /** Generation by whose name its disk is kept; undefined if no disk is known to be. */
  readonly diskGeneration: number | undefined;
  /** Undefined before the first wake. */
  readonly sessionStartedAt: number | undefined;
  readonly pause: SandboxPause;
  /** The command that the sandbox begins with. */
  readonly startCommand: StartCommand | undefined;
}

interface Transition {
  readonly from: readonly RecordStatus[];
  readonly to: RecordStatus;
  /** The event that is appended with the change. */
  readonly event?: Extract<EventType, `sandbox.${string}`>;
}

/**
 * All status changes. Each is a compare-and-set on the id, generation and status that were read. When two changes race,
 * one succeeds and the other must read the record again.
 */
export const TRANSITIONS = {
  /** The instance runs; its agent may not answer yet. */
  launch: { from: ['creating'], to: 'starting' },
  /**
   * The agent answers and every restriction is in force. For an instance from the pool, this holds as soon as it is
   * claimed.
   */
  open: { from: ['creating', 'starting'], to: 'ready', event: 'sandbox.ready' },
  /** The launching server ended; the next generation starts. */
  relaunch: { from: ['creating', 'starting'], to: 'creating' },
  fail: { from: ['creating', 'starting', 'ready'], to: 'failed', event: 'sandbox.failed' },
  /** Records the intent to destroy the sandbox before any teardown. */
  end: { from: ['creating', 'starting', 'ready', 'failed'], to: 'expiring' },
  /** The instance is completely removed. */
  destroy: { from: ['expiring'], to: 'destroyed', event: 'sandbox.destroyed' },
} as const satisfies Record<string, Transition>;
export type TransitionName = keyof typeof TRANSITIONS;

export function transitionOf(name: TransitionName): Transition {
  return TRANSITIONS[name];
}

export function allows(transition: TransitionName, from: RecordStatus): boolean {
  return transitionOf(transition).from.includes(from);
}

/** Activity of a sandbox's executions, known without a database query. */
export interface Activity {
  isRunning(sandboxId: SandboxId): boolean;
  wasUsed(sandboxId: SandboxId): boolean;
}

export function statusOf(record: SandboxRecord, activity: Activity): SandboxStatus {
  const { isReady, needsWake } = factsOf(record);
  if (needsWake) return 'idle';
  if (!isReady) return record.status;
  if (activity.isRunning(record.id)) return 'running';
  return record.used || activity.wasUsed(record.id) ? 'idle' : 'ready';
}

const AFTER_READY = ['running', 'idle', 'expiring', 'destroyed', 'failed'] as const;
/** Statuses that each status can still reach. A wait for any other status is over. */
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

/**
 * Returns whether a wait for `wanted` is over: the status is reached or unreachable. A used sandbox counts as ready.
 */
export function isSettled(status: SandboxStatus, wanted: SandboxStatus): boolean {
  if (status === wanted) return true;
  if (wanted === 'ready' && SANDBOX_STATUS_FACTS[status].isReady) return true;
  return !REACHABLE[status].includes(wanted);
}

export function toLaunchSpec(
  record: Pick<SandboxRecord, 'resources' | 'templateVersionId' | 'networkPolicy'> & Partial<SandboxRecord>,
): LaunchSpec {
  const { cpu, memoryMb, diskMb, pids } = record.resources;
  return {
    source: { kind: 'template', templateVersionId: record.templateVersionId },
    resources: { cpu, memoryBytes: memoryMb * 2 ** 20, diskBytes: diskMb * 2 ** 20, pids },
    network: enforcedPolicy(record),
  };
}

/**
 * Returns the network policy for the runtime. Only the egress gateway inserts secrets into requests. So an
 * `unrestricted` sandbox with secrets gets a policy that routes its traffic through the gateway and denies nothing.
 */
function enforcedPolicy({
  networkPolicy,
  secrets,
}: Pick<SandboxRecord, 'networkPolicy'> & Partial<SandboxRecord>): LaunchSpec['network'] {
  return secrets && networkPolicy.mode === 'unrestricted' ? { mode: 'denylist', hosts: [] } : networkPolicy;
}

/** Returns the sandbox as clients see it, without its instance, environment and generation. */
export function toSandbox(record: SandboxRecord, activity: Activity): Sandbox {
  return {
    id: record.id,
    orgId: record.orgId,
    projectId: record.projectId,
    ...(record.name === undefined ? {} : { name: record.name }),
    status: statusOf(record, activity),
    templateId: record.templateId,
    templateSlug: record.templateSlug,
    templateVersion: record.templateVersion,
    templateVersionId: record.templateVersionId,
    ttlMs: record.ttlMs,
    ...(record.idleTimeoutMs === undefined ? {} : { idleTimeoutMs: record.idleTimeoutMs }),
    expiresAt: timestamp(record.expiresAt),
    pause: record.pause,
    ...pauseOf(record),
    metadata: record.metadata,
    networkPolicy: record.networkPolicy,
    resources: record.resources,
    createdAt: timestamp(record.createdAt),
    ...(record.destroyedAt === undefined ? {} : { destroyedAt: timestamp(record.destroyedAt) }),
    ...(record.destroyedReason === undefined ? {} : { destroyedReason: record.destroyedReason }),
    ...(record.failureReason === undefined ? {} : { failureReason: record.failureReason }),
  };
}
