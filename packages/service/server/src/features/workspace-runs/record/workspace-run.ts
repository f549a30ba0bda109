/** The record of a workspace run, its statuses and its allowed transitions. */
import {
  type ArtifactId,
  FINISHED_RUN_STATUSES,
  type Metadata,
  type NetworkPolicy,
  type OrgId,
  type ProjectId,
  type SandboxId,
  type SecretId,
  type TemplateId,
  type TemplateVersionId,
  type WorkspaceArchive,
  type WorkspaceRun,
  type WorkspaceRunError,
  type WorkspaceRunId,
  type WorkspaceRunStatus,
} from '@cloche/contract';
import { timestamp } from '../../../platform/base/clock.ts';
import type { WorkspaceRunTable } from '../../../platform/db/tables/workspace-run-tables.ts';
import type { ResolvedResources } from '../../sandbox-records/sandbox.ts';

/** The request: the command, and the sandbox that it runs in. */
export interface RunSettings {
  readonly command: string | readonly string[];
  readonly cwd: string;
  readonly timeoutMs: number;
  readonly env: Readonly<Record<string, string>>;
  /** Ids of secrets by environment variable. */
  readonly secrets: Readonly<Record<string, SecretId>>;
  readonly resources: ResolvedResources;
  readonly networkPolicy: NetworkPolicy;
  readonly templateId: TemplateId;
  readonly templateSlug: string;
  readonly templateVersion: string;
  readonly artifacts: readonly string[];
}

/** How a run ended. Written before its artifacts are exported and its sandbox is destroyed. */
export interface RunOutcome {
  readonly status: (typeof FINISHED_RUN_STATUSES)[number];
  readonly exitCode?: number | undefined;
  readonly signal?: string | undefined;
  readonly error?: WorkspaceRunError | undefined;
}

/** A step of a run that a server executes. */
export type RunStep = NonNullable<WorkspaceRunTable['step']>;

/** Times are milliseconds since the epoch. */
export interface WorkspaceRunRecord {
  readonly id: WorkspaceRunId;
  readonly orgId: OrgId;
  readonly projectId: ProjectId;
  readonly status: WorkspaceRunStatus;
  readonly settings: RunSettings;
  readonly templateVersionId: TemplateVersionId;
  readonly metadata: Metadata;
  readonly autoStart: boolean;
  readonly archive: WorkspaceArchive | undefined;
  /** Undefined if no server has anything to do for the run. */
  readonly step: RunStep | undefined;
  /** Number of the sandbox that is created for the run, from 1. */
  readonly attempt: number;
  readonly sandboxId: SandboxId | undefined;
  /** Number of attempts to unpack the archive, each of which may still be under way. */
  readonly archiveAttempts: number;
  readonly outcome: RunOutcome | undefined;
  readonly artifactIds: readonly ArtifactId[];
  readonly createdAt: number;
  readonly queuedAt: number | undefined;
  readonly startedAt: number | undefined;
  readonly cancelRequestedAt: number | undefined;
  readonly finishedAt: number | undefined;
  /** Idempotency record of the request that started it. */
  readonly startRecordId: string | undefined;
  readonly idempotencyRecordId: string | undefined;
}

interface RunTransition {
  readonly from: readonly WorkspaceRunStatus[];
  readonly to: WorkspaceRunStatus;
}

/**
 * All status changes. Each is a compare-and-set on the status that was read. When two changes race, one succeeds and
 * the other must read the record again. Each appends the event `workspace_run.<status>` in its transaction.
 */
export const RUN_TRANSITIONS = {
  /** An archive is stored: the first one, or one that replaces it. */
  archive: { from: ['awaiting_archive', 'archived'], to: 'archived' },
  /** The run is started and waits for its turn. */
  queue: { from: ['archived'], to: 'queued' },
  /** The run has a sandbox. */
  run: { from: ['queued'], to: 'running' },
  succeed: { from: ['running'], to: 'succeeded' },
  fail: { from: ['queued', 'running'], to: 'failed' },
  timeOut: { from: ['running'], to: 'timed_out' },
  cancel: { from: ['awaiting_archive', 'archived', 'queued', 'running'], to: 'canceled' },
} as const satisfies Record<string, RunTransition>;
export type RunTransitionName = keyof typeof RUN_TRANSITIONS;

export function runTransitionOf(name: RunTransitionName): RunTransition {
  return RUN_TRANSITIONS[name];
}

export function allowsRun(transition: RunTransitionName, from: WorkspaceRunStatus): boolean {
  return runTransitionOf(transition).from.includes(from);
}

export function isFinished({ status }: Pick<WorkspaceRunRecord, 'status'>): boolean {
  return (FINISHED_RUN_STATUSES as readonly WorkspaceRunStatus[]).includes(status);
}

/** Returns the run as clients see it, without its environment and its secrets. */
export function toWorkspaceRun(record: WorkspaceRunRecord): WorkspaceRun {
  const { settings, outcome, archive, sandboxId } = record;
  const shown = isFinished(record) ? outcome : undefined;
  return {
    id: record.id,
    orgId: record.orgId,
    projectId: record.projectId,
    status: record.status,
    command: typeof settings.command === 'string' ? settings.command : [...settings.command],
    cwd: settings.cwd,
    timeoutMs: settings.timeoutMs,
    templateId: settings.templateId,
    templateSlug: settings.templateSlug,
    templateVersion: settings.templateVersion,
    templateVersionId: record.templateVersionId,
    resources: settings.resources,
    networkPolicy: settings.networkPolicy,
    artifacts: [...settings.artifacts],
    autoStart: record.autoStart,
    metadata: record.metadata,
    ...(archive && { archive }),
    ...(sandboxId && { sandboxId }),
    ...(shown?.exitCode === undefined ? {} : { exitCode: shown.exitCode }),
    ...(shown?.signal === undefined ? {} : { signal: shown.signal }),
    ...(shown?.error === undefined ? {} : { error: shown.error }),
    // Only a lack of room begins another attempt.
    ...(record.status === 'queued' && record.attempt > 0 && { waitsFor: 'capacity' as const }),
    artifactIds: [...record.artifactIds],
    createdAt: timestamp(record.createdAt),
    ...times(record),
  };
}

/** Returns the data of the event that a run has this status. */
export function toState(record: WorkspaceRunRecord) {
  const { status, exitCode, signal, error } = toWorkspaceRun(record);
  return {
    status,
    ...(exitCode === undefined ? {} : { exitCode }),
    ...(signal === undefined ? {} : { signal }),
    ...(error && { error }),
  };
}

function times({ queuedAt, startedAt, cancelRequestedAt, finishedAt }: WorkspaceRunRecord) {
  return {
    ...(queuedAt === undefined ? {} : { queuedAt: timestamp(queuedAt) }),
    ...(startedAt === undefined ? {} : { startedAt: timestamp(startedAt) }),
    ...(cancelRequestedAt === undefined ? {} : { cancelRequestedAt: timestamp(cancelRequestedAt) }),
    ...(finishedAt === undefined ? {} : { finishedAt: timestamp(finishedAt) }),
  };
}
