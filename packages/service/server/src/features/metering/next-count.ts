import type { InstanceUse } from '@cloche/runtime';
import type { Selectable } from 'kysely';
import type { SandboxUsageTable } from '../../platform/db/tables/usage-tables.ts';
import { type HourSums, hourOf, splitAtHours, type UsageOwner } from './hour-sums.ts';
import type { Started } from './started-work.ts';

/** A sandbox that was ready at some time. */
export interface CountedSandbox extends UsageOwner {
  readonly id: string;
  readonly readyAt: number;
  readonly resources: { readonly memoryMb: number; readonly diskMb: number };
}

export type UsageRecord = Selectable<SandboxUsageTable>;

/** State of a sandbox at a count. */
export interface Count {
  /** Time up to which usage is counted. */
  readonly at: number;
  readonly use: InstanceUse | undefined;
  readonly started: Started | undefined;
  /** Whether the sandbox has ended. */
  readonly ends: boolean;
  /** Whether only its disk counts since the last count, because it was paused. */
  readonly isOnlyDisk: boolean;
}

/** The record after a count, and the usage that the count adds to the hours. */
export interface Counted {
  readonly record: UsageRecord;
  addTo(sums: HourSums): void;
}

/**
 * Returns the record after a count. Time is split at full hours; the increase of a counter belongs to the hour in which
 * the counter is read. If a counter is lower than at the last count, it has started again, and only its later increases
 * count, so that nothing is counted twice.
 */
export function nextCount(sandbox: CountedSandbox, seen: UsageRecord | undefined, count: Count): Counted {
  const before = seen ?? firstRecord(sandbox);
  const until = before.ended === 1 ? before.counted_until : Math.max(before.counted_until, count.at);
  const ms = until - before.counted_until;
  const time = timesOf(sandbox, count.isOnlyDisk, ms);
  const counters = countersOf(before, count.use);
  const added = {
    ...increasesOf(before, counters),
    runs: count.started?.runs ?? 0,
    commands: count.started?.commands ?? 0,
  };
  const record: UsageRecord = {
    ...before,
    ...counters,
    version: before.version + 1,
    counted_until: until,
    ended: before.ended === 1 || count.ends ? 1 : 0,
    cpu_ms: before.cpu_ms + added.cpu_ms,
    memory_mb_ms: before.memory_mb_ms + time.memory_mb_ms,
    disk_mb_ms: before.disk_mb_ms + time.disk_mb_ms,
    paused_ms: before.paused_ms + time.paused_ms,
    egress_bytes: before.egress_bytes + added.egress_bytes,
    ingress_bytes: before.ingress_bytes + added.ingress_bytes,
    runs: before.runs + added.runs,
    commands: before.commands + added.commands,
  };
  return {
    record,
    addTo(sums) {
      for (const part of splitAtHours(before.counted_until, until)) {
        sums.add(sandbox, part.hour, timesOf(sandbox, count.isOnlyDisk, part.ms));
      }
      sums.add(sandbox, hourOf(Math.max(before.counted_until, until - 1)), added);
    },
  };
}

/** Returns what a sandbox uses within a time by existing, paused or not. */
function timesOf({ resources: { memoryMb, diskMb } }: CountedSandbox, isPaused: boolean, ms: number) {
  const [liveMs, pausedMs] = isPaused ? [0, ms] : [ms, 0];
  return { sandbox_ms: liveMs, memory_mb_ms: memoryMb * liveMs, disk_mb_ms: diskMb * ms, paused_ms: pausedMs };
}

function firstRecord({ id, readyAt }: CountedSandbox): UsageRecord {
  return {
    sandbox_id: id,
    version: 0,
    generation: 0,
    cpu_counter: 0,
    egress_counter: 0,
    ingress_counter: 0,
    counted_until: readyAt,
    ended: 0,
    cpu_ms: 0,
    memory_mb_ms: 0,
    disk_mb_ms: 0,
    paused_ms: 0,
    egress_bytes: 0,
    ingress_bytes: 0,
    runs: 0,
    commands: 0,
  };
}

type Counters = Pick<UsageRecord, 'generation' | 'cpu_counter' | 'egress_counter' | 'ingress_counter'>;

/** Returns the counters that a record has after a count. Those of an earlier generation are stale. */
function countersOf(before: UsageRecord, use: InstanceUse | undefined): Counters {
  if (!use || use.generation < before.generation) {
    const { generation, cpu_counter, egress_counter, ingress_counter } = before;
    return { generation, cpu_counter, egress_counter, ingress_counter };
  }
  const { generation, cpuMs, egressBytes, ingressBytes } = use;
  return { generation, cpu_counter: cpuMs, egress_counter: egressBytes, ingress_counter: ingressBytes };
}

function increasesOf(before: UsageRecord, after: Counters) {
  const isSame = before.generation === after.generation;
  const increase = (name: 'cpu_counter' | 'egress_counter' | 'ingress_counter') =>
    Math.max(0, after[name] - (isSame ? before[name] : 0));
  return {
    cpu_ms: increase('cpu_counter'),
    egress_bytes: increase('egress_counter'),
    ingress_bytes: increase('ingress_counter'),
  };
}
