/** A table with the properties of each sandbox status. Other code reads this table and compares no status itself. */
import { SANDBOX_STATUS_FACTS, type SandboxStatus } from '@cloche/contract';
import { type RawBuilder, sql } from 'kysely';

/** Statuses stored in the database. `running` and `idle` are `ready` combined with live activity. */
export type RecordStatus = Exclude<SandboxStatus, 'running' | 'idle'>;

export interface StatusFacts {
  /** Whether the sandbox is being launched. */
  readonly isPending: boolean;
  /** Whether its agent accepts requests now. */
  readonly isReady: boolean;
  /** Whether it accepts runs, commands and files, now or once it is ready. Its TTL runs. */
  readonly acceptsWork: boolean;
  /** Whether it has, or may have, an instance on a host. */
  readonly holdsInstance: boolean;
  /** Whether it counts against the limits of live sandboxes and keeps its project and template version. */
  readonly countsLive: boolean;
  /** Whether the usage of its resources is metered. */
  readonly isMetered: boolean;
  /** Whether it accepts no new work from now on. */
  readonly isOver: boolean;
  /** Whether it has ended and only its record is left. */
  readonly isEnded: boolean;
  /** The action of the reaper when the sandbox's idle timeout is over. */
  readonly onIdle: 'destroy' | 'nothing';
  /** Code of the error for an operation in it. */
  readonly refusal: 'sandbox_destroyed' | 'sandbox_failed' | undefined;
}

const LAUNCHING = {
  isPending: true,
  acceptsWork: true,
  holdsInstance: true,
  countsLive: true,
  isMetered: false,
  onIdle: 'nothing',
  refusal: undefined,
} as const;

const ENDED = {
  isPending: false,
  acceptsWork: false,
  holdsInstance: false,
  countsLive: false,
  isMetered: false,
  onIdle: 'nothing',
} as const;

export const STATUS_FACTS: Readonly<Record<RecordStatus, StatusFacts>> = {
  creating: { ...SANDBOX_STATUS_FACTS.creating, ...LAUNCHING },
  starting: { ...SANDBOX_STATUS_FACTS.starting, ...LAUNCHING },
  ready: {
    ...SANDBOX_STATUS_FACTS.ready,
    isPending: false,
    acceptsWork: true,
    holdsInstance: true,
    countsLive: true,
    isMetered: true,
    onIdle: 'destroy',
    refusal: undefined,
  },
  expiring: {
    ...SANDBOX_STATUS_FACTS.expiring,
    isPending: false,
    acceptsWork: false,
    holdsInstance: true,
    countsLive: true,
    isMetered: true,
    onIdle: 'nothing',
    refusal: 'sandbox_destroyed',
  },
  destroyed: { ...SANDBOX_STATUS_FACTS.destroyed, ...ENDED, refusal: 'sandbox_destroyed' },
  failed: { ...SANDBOX_STATUS_FACTS.failed, ...ENDED, refusal: 'sandbox_failed' },
};

/** The facts that are true or false. */
export type Fact = { [Name in keyof StatusFacts]: StatusFacts[Name] extends boolean ? Name : never }[keyof StatusFacts];

export function factsOf({ status }: { readonly status: RecordStatus }): StatusFacts {
  return STATUS_FACTS[status];
}

/** Returns the statuses of which the fact is true. */
export function statusesThat(fact: Fact): readonly RecordStatus[] {
  return (Object.keys(STATUS_FACTS) as RecordStatus[]).filter((status) => STATUS_FACTS[status][fact]);
}

/** Returns the condition on rows of the table `sandboxes` that the fact is true. */
export function sandboxThat(fact: Fact): RawBuilder<boolean> {
  return sql<boolean>`sandboxes.status in (${sql.join(statusesThat(fact))})`;
}

/** The condition of the partial index for lists, with the same text, because SQLite uses the index for no other. */
export const IS_NOT_ENDED = sql<boolean>`status not in (${sql.join(statusesThat('isEnded').map((status) => sql.lit(status)))})`;
