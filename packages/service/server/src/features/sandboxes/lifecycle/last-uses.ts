import type { Clock } from '../../../platform/base/clock.ts';
import type { Executions } from '../../sandbox-records/executions.ts';
import type { SandboxRecord } from '../../sandbox-records/sandbox.ts';
import type { SandboxRepository } from '../../sandbox-records/sandbox-repository.ts';
import type { RecentActivity, SharedActivity } from '../../sandbox-records/shared-activity.ts';

/** Largest lag of a sandbox's stored activity, if the database has one server. */
const RECORD_LAG_MS = 5_000;
/** Largest lag of the activity rows of other servers: twice the time for which changes are gathered. */
const ROWS_LAG_MS = 500;

/**
 * Returns when a sandbox was last used; infinity while it is in use, or, if its idle timeout destroys it, while something
 * runs in it. The time may be too late, but never too early.
 */
export type LastUse = (record: SandboxRecord) => number;

export interface LastUses {
  read(records: readonly SandboxRecord[]): Promise<LastUse>;
}

/** Last uses for a database with one server. It knows them without a query, except those before its start. */
export class OwnLastUses implements LastUses {
  readonly #sandboxes: SandboxRepository;
  readonly #executions: Executions;
  readonly #clock: Clock;

  constructor(sandboxes: SandboxRepository, executions: Executions, clock: Clock) {
    this.#sandboxes = sandboxes;
    this.#executions = executions;
    this.#clock = clock;
  }

  /** Also stores the last uses from time to time, for the next start. */
  async read(records: readonly SandboxRecord[]): Promise<LastUse> {
    for (const record of records) await this.#writeDown(record);
    return (record) => {
      if (isActive(record, this.#executions)) return Number.POSITIVE_INFINITY;
      const written = recorded(record) + (record.used ? RECORD_LAG_MS : 0);
      return Math.max(this.#executions.lastActiveAt(record.id) ?? written, firstUse(record));
    };
  }

  async #writeDown(record: SandboxRecord): Promise<void> {
    const { id, lastActiveAt = 0 } = record;
    const seen = isActive(record, this.#executions) ? this.#clock.now() : this.#executions.lastActiveAt(id);
    if (seen === undefined || seen - lastActiveAt < RECORD_LAG_MS) return;
    await this.#sandboxes.recordActivity(id, seen);
  }
}

/** Last uses where several servers share the database. */
export class SharedLastUses implements LastUses {
  readonly #activity: SharedActivity;

  constructor(activity: SharedActivity) {
    this.#activity = activity;
  }

  async read(records: readonly SandboxRecord[]): Promise<LastUse> {
    const activity = await this.#activity.of(records.map(({ id }) => id));
    return (record) => {
      if (isActive(record, activity)) return Number.POSITIVE_INFINITY;
      const { id } = record;
      const seen = (isPausable(record) ? activity.lastUsedAt(id) : activity.lastActiveAt(id)) ?? 0;
      return Math.max(recorded(record), firstUse(record), seen) + ROWS_LAG_MS;
    };
  }
}

function isPausable({ pause }: SandboxRecord): boolean {
  return pause.afterIdleMs !== undefined;
}

function isActive(record: SandboxRecord, activity: Pick<RecentActivity, 'isRunning' | 'isInUse'>): boolean {
  return isPausable(record) ? activity.isInUse(record.id) : activity.isRunning(record.id);
}

function recorded({ lastActiveAt, createdAt }: SandboxRecord): number {
  return lastActiveAt ?? createdAt;
}

/** A sandbox is not paused for the time of its launch. */
function firstUse(record: SandboxRecord): number {
  return isPausable(record) ? (record.readyAt ?? 0) : 0;
}
