/** Conversion between records of sandboxes and rows of the database. */
import type {
  DestroyedReason,
  LostReason,
  MemoryMode,
  OrgId,
  PauseCause,
  ProjectId,
  SandboxId,
  SandboxPause,
  TemplateId,
  TemplateVersionId,
  WakeCause,
  WakeMode,
} from '@cloche/contract';
import type { Insertable, Selectable } from 'kysely';
import type { SandboxTable } from '../../platform/db/tables/sandbox-tables.ts';
import type { PauseState } from '../sandbox-status/status-facts.ts';
import type { LaunchFailureKind, SandboxRecord } from './sandbox.ts';
import type { MoveChange, SandboxUpdate, TransitionChange } from './sandbox-repository.ts';

export type NewSandboxRow = Insertable<SandboxTable>;

export function toRow(record: SandboxRecord): NewSandboxRow {
  return {
    id: record.id,
    org_id: record.orgId,
    project_id: record.projectId,
    status: record.status,
    generation: record.generation,
    template_id: record.templateId,
    template_slug: record.templateSlug,
    template_version: record.templateVersion,
    template_version_id: record.templateVersionId,
    ttl_ms: record.ttlMs,
    idle_timeout_ms: record.idleTimeoutMs ?? null,
    expires_at: record.expiresAt,
    metadata: JSON.stringify(record.metadata),
    env: JSON.stringify(record.env),
    secrets: record.secrets ? JSON.stringify(record.secrets) : null,
    network_policy: JSON.stringify(record.networkPolicy),
    resources: JSON.stringify(record.resources),
    cpu_millis: Math.round(record.resources.cpu * 1000),
    memory_mb: record.resources.memoryMb,
    used: record.used ? 1 : 0,
    last_active_at: record.lastActiveAt ?? null,
    instance: record.instance ? JSON.stringify(record.instance) : null,
    created_at: record.createdAt,
    planned_at: record.createdAt,
    ready_at: record.readyAt ?? null,
    destroyed_at: record.destroyedAt ?? null,
    destroyed_reason: record.destroyedReason ?? null,
    failure_reason: record.failureReason ?? null,
    failure_kind: record.failureKind ?? null,
    ending_reason: record.endingReason ?? null,
    idempotency_record_id: record.idempotencyRecordId ?? null,
    launch_owner: record.launchOwner ?? null,
    ...toPauseColumns(record.pause),
    name: record.name ?? null,
    start_command: record.startCommand ? JSON.stringify(record.startCommand) : null,
  };
}

/** Returns the columns that a transition changes. */
export function toColumns(change: TransitionChange) {
  return {
    ...(change.instance === undefined ? {} : { instance: JSON.stringify(change.instance) }),
    ...(change.failureReason === undefined ? {} : { failure_reason: change.failureReason }),
    ...(change.failureKind === undefined ? {} : { failure_kind: change.failureKind }),
    ...(change.endingReason === undefined ? {} : { ending_reason: change.endingReason }),
    ...(change.destroyedReason === undefined ? {} : { destroyed_reason: change.destroyedReason }),
    ...(change.destroyedAt === undefined ? {} : { destroyed_at: change.destroyedAt }),
    ...(change.lastActiveAt === undefined ? {} : { last_active_at: change.lastActiveAt }),
    ...(change.readyAt === undefined ? {} : { ready_at: change.readyAt }),
    ...(change.generation === undefined ? {} : { generation: change.generation, instance: null }),
    ...(change.launchOwner === undefined ? {} : { launch_owner: change.launchOwner }),
  };
}

function toPauseColumns({ afterIdleMs, onExpiry, memory, wake, wakeTtlMs, retainMs }: SandboxPause) {
  return {
    wake_ttl_ms: wakeTtlMs,
    pause_after_idle_ms: afterIdleMs ?? null,
    pause_on_expiry: onExpiry ? 1 : 0,
    pause_memory: memory,
    pause_wake: wake,
    pause_retain_ms: retainMs,
  };
}

/** Returns the columns that an update by a client changes. */
export function toUpdateColumns({ name, metadata, pause }: SandboxUpdate) {
  return {
    ...(name === undefined ? {} : { name }),
    ...(metadata === undefined ? {} : { metadata: JSON.stringify(metadata) }),
    ...(pause && toPauseColumns(pause)),
  };
}

/** Returns the columns that a move into or out of a pause changes. */
export function toMoveColumns(change: MoveChange) {
  return {
    ...(change.owner === undefined ? {} : { pause_owner: change.owner }),
    ...(change.token === undefined ? {} : { pause_token: change.token }),
    ...(change.pausedBy === undefined ? {} : { paused_by: change.pausedBy }),
    ...(change.pausedAt === undefined ? {} : { paused_at: change.pausedAt }),
    ...(change.expiresAt === undefined ? {} : { expires_at: change.expiresAt }),
    ...(change.pausedMemory === undefined ? {} : { paused_memory: change.pausedMemory }),
    ...(change.lostReason === undefined ? {} : { lost_reason: change.lostReason }),
    ...(change.diskGeneration === undefined ? {} : { disk_generation: change.diskGeneration }),
    ...(change.generation === undefined ? {} : { generation: change.generation, instance: null }),
    ...(change.instance === undefined ? {} : { instance: JSON.stringify(change.instance) }),
    ...(change.retentionNoticeAt === undefined ? {} : { retention_notice_at: change.retentionNoticeAt }),
    ...(change.resumed === undefined
      ? {}
      : {
          resumed_at: change.resumed.at,
          resumed_by: change.resumed.by,
          resumed_lost_reason: change.resumed.lostReason ?? null,
          session_started_at: change.resumed.at,
          last_active_at: change.resumed.at,
          ttl_ms: change.resumed.ttlMs,
          expires_at: change.resumed.at + change.resumed.ttlMs,
          retention_notice_at: null,
        }),
  };
}

/**
 * Converts a row. The casts are sound because only the repository of sandboxes writes these columns.
 *
 * @param pauseRetentionMs longest time for which a pause may last
 */
export function toRecord(row: Selectable<SandboxTable>, pauseRetentionMs: number): SandboxRecord {
  return {
    id: row.id as SandboxId,
    orgId: row.org_id as OrgId,
    projectId: row.project_id as ProjectId,
    name: row.name ?? undefined,
    status: row.status,
    generation: row.generation,
    templateId: row.template_id as TemplateId,
    templateSlug: row.template_slug,
    templateVersion: row.template_version,
    templateVersionId: row.template_version_id as TemplateVersionId,
    ttlMs: row.ttl_ms,
    idleTimeoutMs: row.idle_timeout_ms ?? undefined,
    expiresAt: row.expires_at,
    metadata: JSON.parse(row.metadata),
    env: JSON.parse(row.env),
    secrets: row.secrets === null ? undefined : JSON.parse(row.secrets),
    networkPolicy: JSON.parse(row.network_policy),
    resources: JSON.parse(row.resources),
    used: row.used === 1,
    lastActiveAt: row.last_active_at ?? undefined,
    instance: row.instance === null ? undefined : JSON.parse(row.instance),
    createdAt: row.created_at,
    readyAt: row.ready_at ?? undefined,
    destroyedAt: row.destroyed_at ?? undefined,
    destroyedReason: (row.destroyed_reason as DestroyedReason | null) ?? undefined,
    failureReason: row.failure_reason ?? undefined,
    failureKind: (row.failure_kind as LaunchFailureKind | null) ?? undefined,
    endingReason: (row.ending_reason as DestroyedReason | null) ?? undefined,
    idempotencyRecordId: row.idempotency_record_id ?? undefined,
    launchOwner: row.launch_owner ?? undefined,
    pauseState: (row.pause_state as PauseState | null) ?? undefined,
    pauseEpoch: row.pause_epoch,
    pauseOwner: row.pause_owner ?? undefined,
    pauseToken: row.pause_token ?? undefined,
    pausedAt: row.paused_at ?? undefined,
    pausedBy: (row.paused_by as PauseCause | null) ?? undefined,
    resumedAt: row.resumed_at ?? undefined,
    resumedBy: (row.resumed_by as WakeCause | null) ?? undefined,
    sessionStartedAt: row.session_started_at ?? undefined,
    pausedMemory: (row.paused_memory as MemoryMode | null) ?? 'keep',
    lostReason: (row.lost_reason as LostReason | null) ?? undefined,
    resumedLostReason: (row.resumed_lost_reason as LostReason | null) ?? undefined,
    diskGeneration: row.disk_generation ?? undefined,
    pause: {
      ...(row.pause_after_idle_ms === null ? {} : { afterIdleMs: row.pause_after_idle_ms }),
      onExpiry: row.pause_on_expiry === 1,
      memory: (row.pause_memory as MemoryMode | null) ?? 'prefer',
      wake: (row.pause_wake as WakeMode | null) ?? 'requests',
      wakeTtlMs: row.wake_ttl_ms ?? row.ttl_ms,
      retainMs: Math.min(row.pause_retain_ms ?? pauseRetentionMs, pauseRetentionMs),
    },
    startCommand: row.start_command === null ? undefined : JSON.parse(row.start_command),
  };
}
