import type { Clock } from '../../../platform/base/clock.ts';
import type { Executions } from '../../sandbox-records/executions.ts';
import type { SandboxRecord } from '../../sandbox-records/sandbox.ts';
import type { SandboxRepository } from '../../sandbox-records/sandbox-repository.ts';
import type { SharedActivity } from '../../sandbox-records/shared-activity.ts';

/** Largest lag of a sandbox's stored activity, if the database has one server. */
const RECORD_LAG_MS = 5_000;
/** Largest lag of the activity rows of other servers: twice the time for which changes are gathered. */
const ROWS_LAG_MS = 500;

/**
 * Returns when a sandbox was last used; infinity while something runs in it. The time may be too late, but never too
 * early.
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
      if (this.#executions.isRunning(record.id)) return Number.POSITIVE_INFINITY;
      const written = (record.lastActiveAt ?? record.createdAt) + (record.used ? RECORD_LAG_MS : 0);
      return this.#executions.lastActiveAt(record.id) ?? written;
    };
  }

  async #writeDown({ id, lastActiveAt = 0 }: SandboxRecord): Promise<void> {
    const seen = this.#executions.isRunning(id) ? this.#clock.now() : this.#executions.lastActiveAt(id);
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
    return ({ id, lastActiveAt, createdAt }) => {
      if (activity.isRunning(id)) return Number.POSITIVE_INFINITY;
      return Math.max(lastActiveAt ?? createdAt, activity.lastActiveAt(id) ?? 0) + ROWS_LAG_MS;
    };
  }
}
