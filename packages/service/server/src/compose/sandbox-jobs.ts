import type { Logger } from 'pino';
import type { DiskSweep } from '../features/pauses/disk-sweep.ts';
import type { RetentionNotices } from '../features/pauses/retention.ts';
import type { WakeForRequests } from '../features/pauses/wake-for-requests.ts';
import type { SandboxSettings } from '../features/sandbox-records/sandbox-settings.ts';
import type { EndedRecords } from '../features/sandboxes/lifecycle/ended-records.ts';
import type { Reaper } from '../features/sandboxes/lifecycle/reaper.ts';
import type { TemplateCatalogue } from '../features/template-catalogue/template-catalogue.ts';
import type { Clock } from '../platform/base/clock.ts';
import { Loop, type WatchOthers } from '../platform/base/loop.ts';
import type { EventOutbox } from '../platform/outbox/event-outbox.ts';

/** Time until a retry of a failed job, or of a runtime that did not answer. */
const RETRY_MS = 1_000;
const FORGET_MS = 3_600_000;
/** How often a server looks for launches of servers that have ended, and for pauses and wakes that no server makes. */
const TAKE_OVER_MS = 1_000;
const NOTICE_MS = 1_000;
/** How often a server looks for requests whose sandbox was paused before its agent read them. */
const WAKE_MS = 500;
const SWEEP_DISKS_MS = 60_000;
/** At most so much of what a sandbox has written is lost with its host. */
const KEEP_DISKS_MS = 30_000;

export interface SandboxJobsDeps {
  readonly catalogue: TemplateCatalogue;
  readonly reconcile: () => Promise<unknown>;
  readonly reaper: Reaper;
  readonly wakeForRequests: WakeForRequests;
  /** Finishes pauses and wakes that servers have left, or that could be neither finished nor undone. */
  readonly settleMoves: () => Promise<void>;
  readonly endedRecords: EndedRecords;
  readonly outbox: EventOutbox;
  readonly retentionNotices: Pick<RetentionNotices, 'pass'>;
  /** Takes over what servers have left. */
  readonly takeOver: () => Promise<void>;
  readonly diskSweep: DiskSweep;
  readonly watchOthers: WatchOthers;
  readonly settings: SandboxSettings;
  readonly isFenced: () => boolean;
  readonly clock: Clock;
  readonly log: Logger;
}

/** Starts the jobs that keep templates, records and hosts in agreement. The caller stops the loops. */
export function startSandboxJobs(deps: SandboxJobsDeps): Pick<Loop, 'stop'>[] {
  const { catalogue, reaper, wakeForRequests, settleMoves, retentionNotices, diskSweep } = deps;
  const { endedRecords, outbox, settings, isFenced, clock, log } = deps;
  const mend = async () => {
    if (isFenced()) return RETRY_MS;
    await catalogue.sync();
    await deps.reconcile();
    return settings.reconcileIntervalMs;
  };
  const reap = async () => (isFenced() ? RETRY_MS : (await reaper.sweep()).sleepMs);
  const forget = async () => {
    const forgotten = await endedRecords.forget(clock.now() - settings.recordRetentionMs);
    if (forgotten > 0) log.info({ forgotten }, 'records of ended sandboxes deleted');
    await outbox.forget(clock.now() - settings.eventRetentionMs);
    return FORGET_MS;
  };
  /** A job that a server without a lease leaves to others. */
  const every = (name: string, ms: number, pass: () => Promise<unknown>) => {
    const passIfPermitted = async () => {
      if (!isFenced()) await pass();
      return ms;
    };
    return new Loop(name, passIfPermitted, RETRY_MS, log);
  };
  const takeOver = async () => {
    if (!isFenced()) await deps.takeOver();
  };
  return [
    new Loop('reconcile', mend, RETRY_MS, log),
    new Loop('reap', reap, RETRY_MS, log),
    every('wake for requests', WAKE_MS, () => wakeForRequests.pass()),
    every('settle pauses', TAKE_OVER_MS, settleMoves),
    new Loop('forget', forget, RETRY_MS, log),
    every('announce ends of pauses', NOTICE_MS, () => retentionNotices.pass()),
    every('sweep kept disks', SWEEP_DISKS_MS, () => diskSweep.pass()),
    every('keep disks', KEEP_DISKS_MS, () => diskSweep.keepAll()),
    deps.watchOthers('take over launches', takeOver, TAKE_OVER_MS),
  ];
}
